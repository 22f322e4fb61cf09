#include "apps/fetch/transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using End = Transfer::End;

/// The numbers of "bytes 100-199/200", the value of a Content-Range.
struct ContentRange {
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> total;  ///< none for "*"
};

std::optional<ContentRange> parse_range(std::string_view text) {
  const auto number = [&](std::uint64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  const auto word = [&](std::string_view wanted) {
    if (!text.starts_with(wanted)) return false;
    text.remove_prefix(wanted.size());
    return true;
  };
  ContentRange range;
  std::uint64_t last = 0, total = 0;
  if (!word("bytes ") || !number(range.begin) || !word("-") || !number(last) || !word("/"))
    return std::nullopt;
  if (word("*")) return range;
  if (!number(total)) return std::nullopt;
  range.total = total;
  return range;
}

/// A request under way: what libcurl's callbacks share.
class Request {
 public:
  Request(const std::string& url, PartFile& part, std::uint64_t bytes,
          const TransferOptions& options)
      : part_(part),
        bytes_(bytes),
        options_(options),
        begin_(part.size()),
        curl_(curl_easy_init(), curl_easy_cleanup) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK || curl_ == nullptr)
      throw Error(ErrorCode::internal, "libcurl could not be initialised",
                  "check the libraries of this host");
    set(CURLOPT_URL, url.c_str());
    set_limits();
    if (begin_ > 0) set(CURLOPT_RANGE, fmt::format("{}-", begin_).c_str());
  }

  Transfer perform() {
    const CURLcode code = curl_easy_perform(curl_.get());
    if (disk_error_) std::rethrow_exception(disk_error_);
    if (options_.stop.stop_requested()) return {End::stopped, "stopped"};
    if (refusal_) return *refusal_;
    const bool resumes = begin_ > 0;
    if (code == CURLE_HTTP_RETURNED_ERROR && resumes && status() == 416)
      return {End::bad_range, "does not have the range"};
    if (code != CURLE_OK) return {end_of(code), reason_of(code)};
    if (part_.size() < bytes_)
      return {End::broken_off, fmt::format("ended after {} of {} bytes", part_.size(), bytes_)};
    return {End::complete, ""};
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    if (const CURLcode code = curl_easy_setopt(curl_.get(), option, value); code != CURLE_OK)
      throw Error(ErrorCode::internal,
                  fmt::format("libcurl refuses an option: {}", curl_easy_strerror(code)),
                  "check the version of libcurl, which must be 7.85 or newer");
  }
  void set_limits() {
    const long seconds = options_.timeout.count();
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_CONNECTTIMEOUT, seconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1000L);
    set(CURLOPT_LOW_SPEED_TIME, seconds);
    set(CURLOPT_USERAGENT, "troupe");
    set(CURLOPT_ERRORBUFFER, message_.data());
    set(CURLOPT_HEADERFUNCTION, &Request::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Request::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Request::on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }

  long status() const {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  std::string reason_of(CURLcode code) const {
    const std::string text = message_[0] != '\0' ? message_.data() : curl_easy_strerror(code);
    return printable(text, 200);
  }
  End end_of(CURLcode code) const {
    curl_off_t connected = 0;  // microseconds until the request could be sent; 0: never
    curl_easy_getinfo(curl_.get(), CURLINFO_PRETRANSFER_TIME_T, &connected);
    switch (code) {
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_CONNECT:
      case CURLE_PROXY:
        return End::unreachable;
      case CURLE_OPERATION_TIMEDOUT:
        return connected > 0 ? End::broken_off : End::unreachable;
      case CURLE_PARTIAL_FILE:
      case CURLE_RECV_ERROR:
      case CURLE_SEND_ERROR:
      case CURLE_GOT_NOTHING:
      case CURLE_HTTP2:
      case CURLE_HTTP2_STREAM:
        return End::broken_off;
      default:
        return End::refused;
    }
  }

  bool refuse(End end, std::string reason) {
    refusal_ = Transfer{end, std::move(reason)};
    return false;
  }
  /// Decides about an answer when its first bytes arrive; the header is complete then.
  bool accept() {
    const long code = status();
    if (code == 206 && begin_ > 0) {
      const auto range = parse_range(range_);
      if (!range || range->begin != begin_ || (range->total && *range->total != bytes_))
        return refuse(End::bad_range, fmt::format("sent the range '{}' instead of bytes {}-{}/{}",
                                                  printable(range_), begin_, bytes_ - 1, bytes_));
    } else if (code != 200) {
      return refuse(End::refused, fmt::format("answered with the status {}", code));
    }
    const std::uint64_t expected = code == 200 ? bytes_ : bytes_ - begin_;
    curl_off_t length = -1;
    curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length >= 0 && static_cast<std::uint64_t>(length) != expected)
      return refuse(End::refused,
                    fmt::format("announces {} bytes instead of {}", length, expected));
    if (code == 200) part_.clear();  // it ignores the range
    return true;
  }
  bool store(std::span<const std::byte> bytes) {
    if (!accepted_ && !(accepted_ = accept())) return false;
    if (bytes.size() > bytes_ - part_.size())
      return refuse(End::refused, fmt::format("sends more than {} bytes", bytes_));
    part_.append(bytes);
    return true;
  }
  /// libcurl limits the size of headers.
  void read_header(std::string_view line) {
    constexpr std::string_view name = "content-range:";
    if (line.starts_with("HTTP/")) range_.clear();  // a redirection has a header of its own
    if (line.size() < name.size() || curl_strnequal(line.data(), name.data(), name.size()) == 0)
      return;
    line.remove_prefix(name.size());
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    range_ = line.substr(0, line.find_first_of("\r\n"));
  }

  // What these return other than the size of their data, or 0, ends the transfer.
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) {
    auto& request = *static_cast<Request*>(self);
    try {
      return request.store(std::as_bytes(std::span(data, size))) ? size : 0;
    } catch (...) {  // through libcurl's frames, which are C
      request.disk_error_ = std::current_exception();
      return 0;
    }
  }
  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) {
    static_cast<Request*>(self)->read_header({data, size});
    return size;
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto& request = *static_cast<Request*>(self);
    if (request.options_.progress) request.options_.progress(request.part_.size());
    return request.options_.stop.stop_requested() ? 1 : 0;
  }

  PartFile& part_;
  std::uint64_t bytes_;
  const TransferOptions& options_;
  std::uint64_t begin_;  ///< the first byte that is requested
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  std::array<char, CURL_ERROR_SIZE> message_{};
  std::string range_;  ///< the answer's Content-Range
  bool accepted_ = false;
  std::optional<Transfer> refusal_;
  std::exception_ptr disk_error_;
};

}  // namespace

Transfer transfer(const std::string& url, PartFile& part, std::uint64_t bytes,
                  const TransferOptions& options) {
  return Request(url, part, bytes, options).perform();
}

}  // namespace troupe

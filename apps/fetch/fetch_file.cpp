#include "apps/fetch/fetch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "runtime/error.h"
#include "runtime/print.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using End = Transfer::End;

/// Requests to one server while each brings the file further.
constexpr int most_requests = 100;

/// "has 12 bytes instead of 13" where a file is not the expected one; empty where it is.
std::string difference(const fs::path& path, const FetchFile& file) {
  if (const auto size = fs::file_size(path); size != file.bytes)
    return fmt::format("has {} bytes instead of {}", size, file.bytes);
  const std::string md5 = file_md5(path);
  return md5 == file.md5 ? "" : fmt::format("has the MD5 {} instead of {}", md5, file.md5);
}

bool is_there(const fs::path& target, const FetchFile& file, bool force) {
  const fs::file_status status = fs::status(target);
  if (!fs::exists(status)) return false;
  if (!fs::is_regular_file(status))
    throw Error(ErrorCode::io, fmt::format("{} is not an ordinary file", target.string()),
                "remove it, or choose another folder with -o");
  const std::string wrong = difference(target, file);
  if (wrong.empty()) return true;
  if (force) return false;
  throw Error(ErrorCode::bad_file, fmt::format("{} {}", target.string(), wrong),
              "replace it with --force, or choose another folder with -o");
}

void check_space(const fs::path& folder, const FetchFile& file, std::uint64_t have) {
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  const std::uint64_t needed = file.bytes - std::min(have, file.bytes);
  if (!unknown && space.available < needed)
    throw Error(ErrorCode::io,
                fmt::format("{} has {:.1f} MB free, but {} needs {:.1f} MB", folder.string(),
                            static_cast<double>(space.available) / 1e6, file.name,
                            static_cast<double>(needed) / 1e6),
                "free some space, or choose another folder with -o");
}

/// Requests the file from one server until it is there and correct, or the server brings it no
/// further.
Transfer from_mirror(const std::string& url, PartFile& part, const FetchFile& file,
                     const TransferOptions& options) {
  Transfer last;
  for (int request = 0; request < most_requests; ++request) {
    if (part.size() > file.bytes) part.clear();
    const std::uint64_t before = part.size();
    last = before < file.bytes ? transfer(url, part, file.bytes, options) : Transfer{};
    if (last.end == End::bad_range && before > 0) {
      part.clear();
      continue;
    }
    if (last.end == End::broken_off && part.size() > before) continue;
    if (last.end != End::complete) return last;
    const std::string wrong = difference(part.path(), file);
    if (wrong.empty()) return last;
    part.clear();
    last = {End::refused, "the file " + wrong};
    if (before == 0) return last;  // else what was there before may have been wrong
  }
  return last;
}

Error no_mirror(const FetchSource& source, const fs::path& target, const std::string& reasons,
                bool reached) {
  return {ErrorCode::io,
          fmt::format("{} could not be downloaded: {}", target.filename().string(), reasons),
          reached
              ? fmt::format("try again later, give another server by --url, or copy the file to "
                            "{}",
                            target.string())
              : fmt::format("run {} fetch {} on a host with network access, such as a login "
                            "node, or copy the file to {}; behind a proxy, set https_proxy",
                            program_name(), source.name, target.string())};
}

}  // namespace

Fetched fetch_file(const FetchSource& source, const FetchFile& file, const fs::path& folder,
                   bool force, const TransferOptions& options) {
  const fs::path target = folder / file.name;
  if (is_there(target, file, force)) return {Fetched::How::already_there, ""};
  PartFile part(target);
  // Another process may have completed it in the meantime.
  if (is_there(target, file, force)) {
    fs::remove(part.path());
    return {Fetched::How::already_there, ""};
  }
  check_space(folder, file, part.size());
  std::string reasons;
  bool reached = false;
  for (const std::string& mirror : source.mirrors) {
    const std::string url = mirror + file.name;
    const Transfer done = from_mirror(url, part, file, options);
    if (done.end == End::stopped) return {Fetched::How::stopped, ""};
    if (done.end == End::complete) {
      part.publish();
      return {Fetched::How::downloaded, url};
    }
    reached = reached || done.end != End::unreachable;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", url, done.reason);
  }
  throw no_mirror(source, target, reasons, reached);
}

}  // namespace troupe

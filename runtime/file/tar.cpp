#include "runtime/file/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/error.h"
#include "runtime/file/gzip.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::size_t block_bytes = 512;
using Block = std::array<std::byte, block_bytes>;

// The fields of a header: offset and size.
struct Place {
  std::size_t offset, size;
};
constexpr Place name_place{0, 100}, size_place{124, 12}, checksum_place{148, 8},
    magic_place{257, 5}, prefix_place{345, 155};
constexpr std::size_t type_offset = 156;

/// The text in a field, which a zero byte may end.
std::string_view text_in(const Block& header, Place place) {
  const std::string_view field(reinterpret_cast<const char*>(header.data()) + place.offset,
                               place.size);
  return field.substr(0, field.find('\0'));
}

/// An octal number among spaces; nothing for anything else.
std::optional<std::uint64_t> octal_in(const Block& header, Place place) {
  std::string_view digits = text_in(header, place);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  std::uint64_t value = 0;  // at most twelve digits: 36 bits
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value << 3 | static_cast<std::uint64_t>(digit - '0');
  }
  return digits.empty() ? std::nullopt : std::optional(value);
}

/// The sum of a header's bytes, with spaces in place of the checksum.
std::uint64_t sum_of(const Block& header) {
  std::uint64_t sum = checksum_place.size * ' ';
  for (std::size_t i = 0; i < header.size(); ++i)
    if (i < checksum_place.offset || i >= checksum_place.offset + checksum_place.size)
      sum += std::to_integer<std::uint64_t>(header[i]);
  return sum;
}

bool is_zero(const Block& block) {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

std::string name_in(const Block& header) {
  const std::string name(text_in(header, name_place));
  const std::string_view prefix = text_in(header, prefix_place);
  const bool is_posix = text_in(header, magic_place) == "ustar" &&
                        header[magic_place.offset + magic_place.size] == std::byte{0};
  return is_posix && !prefix.empty() ? fmt::format("{}/{}", prefix, name) : name;
}

enum class Kind : std::uint8_t { file, without_content, other };

Kind kind_of(const Block& header) {
  const char type = std::to_integer<char>(header[type_offset]);
  if (type == '\0' || type == '0' || type == '7') return Kind::file;
  return type >= '1' && type <= '6' ? Kind::without_content : Kind::other;
}

}  // namespace

struct TarReader::State {
  State(std::span<const std::byte> bytes, std::string name, std::uint64_t most)
      : rest(bytes), packed_bytes(bytes.size()), origin(std::move(name)), most_bytes(most) {
    if (GzipReader::is_gzip(bytes)) gzip.emplace(bytes, origin);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::bad_file, fmt::format("reading archive '{}': {}", origin, what),
                "the file is damaged or of another kind: download it again");
  }

  /// How many bytes of `out` were filled; fewer only at the end of the archive.
  std::size_t read_some(std::span<std::byte> out) {
    std::size_t filled = 0;
    if (!gzip) {
      filled = std::min(out.size(), rest.size());
      std::copy_n(rest.begin(), filled, out.begin());
      rest = rest.subspan(filled);
      return filled;
    }
    while (filled < out.size()) {
      const std::size_t more = gzip->read_some(out.subspan(filled));
      if (more == 0) break;
      filled += more;
    }
    return filled;
  }
  void read(std::span<std::byte> out) {
    if (const std::size_t filled = read_some(out); filled < out.size())
      fail(fmt::format("it ends {} bytes too early", out.size() - filled));
  }
  void skip(std::uint64_t bytes) {
    std::array<std::byte, 64 * block_bytes> scratch;
    for (std::uint64_t left = bytes; left > 0;) {
      const std::size_t piece = std::min<std::uint64_t>(left, scratch.size());
      read(std::span(scratch).first(piece));
      left -= piece;
    }
  }

  /// The first one says whether this is an archive at all.
  Block next_header() {
    Block header{};
    const std::size_t filled = read_some(header);
    if (!std::exchange(begun, true) && !is_zero(header) &&
        text_in(header, magic_place) != "ustar" &&
        octal_in(header, checksum_place) != sum_of(header))
      fail(fmt::format(
          "it is not a tar archive, plain or gzip-compressed: it begins with '{}', not with a "
          "header and its checksum",
          printable({reinterpret_cast<const char*>(header.data()), filled}, 16)));
    if (filled < header.size())
      fail(fmt::format("it ends {} bytes too early", header.size() - filled));
    return header;
  }
  /// The checked size of a member.
  std::uint64_t size_in(const Block& header) const {
    const auto checksum = octal_in(header, checksum_place);
    if (!checksum || *checksum != sum_of(header)) fail("the checksum of a header is wrong");
    const auto size = octal_in(header, size_place);
    if (!size) fail(fmt::format("the size of '{}' is not a number", printable(name_in(header))));
    if (*size > most_bytes)
      fail(fmt::format("'{}' has {} bytes, more than {}", printable(name_in(header)), *size,
                       most_bytes));
    if (*size > (gzip ? packed_bytes * gzip_largest_ratio : rest.size()))
      fail(fmt::format("'{}' has {} bytes, more than the archive can hold",
                       printable(name_in(header)), *size));
    return *size;
  }
  /// Members are padded to whole blocks.
  static std::uint64_t padding(std::uint64_t bytes) {
    return (block_bytes - bytes % block_bytes) % block_bytes;
  }
  /// What follows the end is padding, to a whole record.
  void expect_end() {
    constexpr std::size_t longest = std::size_t{1} << 20;
    std::vector<std::byte> padding(longest);
    if (read_some(padding) == longest) fail("more than a megabyte follows its end");
  }

  std::span<const std::byte> rest;  // of a plain archive
  std::uint64_t packed_bytes;
  std::string origin;
  std::uint64_t most_bytes;
  std::optional<GzipReader> gzip;
  std::uint64_t unread = 0;  // of the last member, without padding
  bool begun = false;        // the first header has been read
  bool ended = false;
};

TarReader::TarReader(std::span<const std::byte> bytes, std::string origin, std::uint64_t most_bytes)
    : state_(std::make_unique<State>(bytes, std::move(origin), most_bytes)) {}

TarReader::~TarReader() = default;

std::optional<TarMember> TarReader::next() {
  State& state = *state_;
  while (!state.ended) {
    state.skip(state.unread + State::padding(state.unread));
    state.unread = 0;
    const Block header = state.next_header();
    if (is_zero(header)) {
      state.expect_end();
      state.ended = true;
      break;
    }
    const Kind kind = kind_of(header);
    const std::uint64_t size = state.size_in(header);
    state.unread = kind == Kind::without_content ? 0 : size;
    if (kind == Kind::file) return TarMember{name_in(header), size};
  }
  return std::nullopt;
}

std::vector<std::byte> TarReader::content() {
  State& state = *state_;
  std::vector<std::byte> bytes(state.unread);
  state.read(bytes);
  state.skip(State::padding(state.unread));
  state.unread = 0;
  return bytes;
}

}  // namespace troupe

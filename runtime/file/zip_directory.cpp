#include "runtime/file/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe::zip {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view end_mark = "PK\5\6"sv, end64_mark = "PK\6\6"sv,
                           locator_mark = "PK\6\7"sv, entry_mark = "PK\1\2"sv,
                           header_mark = "PK\3\4"sv;
constexpr std::uint64_t end_bytes = 22, end64_bytes = 56, locator_bytes = 20, entry_bytes = 46,
                        header_bytes = 30;
constexpr std::uint64_t longest_comment = 0xffff;
/// In place of a number that has 64 bits and is stated elsewhere.
constexpr std::uint64_t elsewhere16 = 0xffff, elsewhere32 = 0xffffffff;

constexpr std::uint64_t encrypted_flags = 1U << 0 | 1U << 6 | 1U << 13;
constexpr std::uint64_t streamed_flag = 1U << 3;  ///< sizes and checksum follow the bytes

/// Numbers in a range of bytes. The caller has compared the range with what it reads.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t u16(std::size_t at) const { return number(at, 2); }
  std::uint64_t u32(std::size_t at) const { return number(at, 4); }
  std::uint64_t u64(std::size_t at) const { return number(at, 8); }
  std::string_view text(std::size_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }
  bool begins_with(std::string_view mark) const {
    return bytes_.size() >= mark.size() && text(0, mark.size()) == mark;
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::uint64_t number(std::size_t at, std::size_t size) const {
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at + i]);
    return value;
  }
  std::span<const std::byte> bytes_;
};

/// The directory's place.
struct Place {
  std::uint64_t begin = 0, size = 0, entries = 0;
};

/// Takes numbers of 64 bits from the extra field of a header, in their order.
class WideNumbers {
 public:
  explicit WideNumbers(std::string_view extra) : rest_(field(extra)) {}

  /// `value`, or the next wide number if `value` says that it is elsewhere. Nothing if it lacks.
  std::optional<std::uint64_t> in_place_of(std::uint64_t value) {
    constexpr std::size_t size = 8;
    if (value != elsewhere32) return value;
    if (rest_.size() < size) return std::nullopt;
    const std::uint64_t wide = Record(std::as_bytes(std::span(rest_.data(), rest_.size()))).u64(0);
    rest_.remove_prefix(size);
    return wide;
  }

 private:
  static std::string_view field(std::string_view extra) {
    constexpr std::uint64_t wide_numbers = 1;
    constexpr std::size_t head = 4;
    while (extra.size() >= head) {
      const Record record(std::as_bytes(std::span(extra.data(), extra.size())));
      const std::uint64_t size = record.u16(2);
      if (size > extra.size() - head) return {};
      if (record.u16(0) == wide_numbers) return extra.substr(head, size);
      extra.remove_prefix(head + size);
    }
    return {};
  }
  std::string_view rest_;
};

/// Whether the parts of a name stay below the folder into which somebody unpacks it.
bool stays_inside(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  if (name.find_first_of("\\\0"sv) != std::string_view::npos) return false;
  if (name.size() > 1 && name[1] == ':') return false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

class Directory {
 public:
  Directory(std::span<const std::byte> bytes, const std::string& origin)
      : bytes_(bytes), origin_(origin) {}

  std::vector<ZipMember> read() const {
    const Place place = find();
    if (place.entries > place.size / entry_bytes)
      fail(origin_,
           fmt::format("its directory of {} bytes states {} members", place.size, place.entries));
    std::vector<ZipMember> members;
    members.reserve(place.entries);
    std::span<const std::byte> rest = bytes_.subspan(place.begin, place.size);
    for (std::uint64_t i = 0; i < place.entries; ++i) {
      const std::size_t size = entry_size(rest);
      members.push_back(entry(Record(rest.first(size))));
      rest = rest.subspan(size);
    }
    if (!rest.empty())
      fail(origin_, fmt::format("its directory has {} bytes after its {} members", rest.size(),
                                place.entries));
    for (ZipMember& member : members) locate(member, place.begin);
    check_names(members);
    check_places(members);
    return members;
  }

 private:
  [[noreturn]] void refuse(std::string_view name, const std::string& what) const {
    fail(origin_, fmt::format("its member {} {}", printable(name), what));
  }
  Record record(std::uint64_t begin, std::uint64_t size) const {
    return Record(bytes_.subspan(begin, size));
  }

  /// The archive ends with a record of a comment; its own end is that of the file.
  std::uint64_t find_end() const {
    if (bytes_.size() >= end_bytes) {
      std::uint64_t at = bytes_.size() - end_bytes;
      const std::uint64_t first = at - std::min(at, longest_comment);
      for (;; --at) {
        const Record end = record(at, end_bytes);
        if (end.begins_with(end_mark) && end.u16(20) == bytes_.size() - end_bytes - at) return at;
        if (at == first) break;
      }
    }
    throw Error(
        ErrorCode::bad_file,
        fmt::format("reading '{}': it is not a zip archive, or its end is missing", origin_),
        "the file is truncated or of another kind: copy or write it again");
  }

  Place find() const {
    const std::uint64_t at = find_end();
    const Record end = record(at, end_bytes);
    if (at >= locator_bytes && record(at - locator_bytes, locator_bytes).begins_with(locator_mark))
      return find64(at - locator_bytes, end);
    return checked({end.u32(16), end.u32(12), end.u16(10)}, end.u16(8), end.u16(4) | end.u16(6),
                   at);
  }
  Place find64(std::uint64_t locator_at, const Record& end) const {
    const Record locator = record(locator_at, locator_bytes);
    const std::uint64_t at = locator.u64(8);
    if (at > locator_at || locator_at - at < end64_bytes ||
        !record(at, end64_bytes).begins_with(end64_mark))
      fail(origin_, "the end of its directory is not where it should be");
    const Record wide = record(at, end64_bytes);
    constexpr std::uint64_t head = 12;  // which the stated size does not count
    if (wide.u64(4) != locator_at - at - head)
      fail(origin_, "the end of its directory has another size than it states");
    const Place place{wide.u64(48), wide.u64(40), wide.u64(32)};
    const auto agrees = [](std::uint64_t narrow, std::uint64_t value, std::uint64_t elsewhere) {
      return narrow == elsewhere || narrow == value;
    };
    if (!agrees(end.u16(10), place.entries, elsewhere16) ||
        !agrees(end.u32(12), place.size, elsewhere32) ||
        !agrees(end.u32(16), place.begin, elsewhere32))
      fail(origin_, "the two ends of its directory contradict each other");
    return checked(place, wide.u64(24), locator.u32(4) | wide.u32(16) | wide.u32(20), at);
  }
  /// `end`: where the directory has to end.
  Place checked(Place place, std::uint64_t entries_here, std::uint64_t disks,
                std::uint64_t end) const {
    if (disks != 0 || entries_here != place.entries)
      fail(origin_, "it is a part of an archive of several disks");
    if (place.begin > end || place.size != end - place.begin)
      fail(origin_,
           fmt::format("its directory of {} bytes at {} does not end at {}: bytes are missing or "
                       "were added",
                       place.size, place.begin, end));
    return place;
  }

  std::size_t entry_size(std::span<const std::byte> rest) const {
    const Record fixed(rest.first(std::min<std::size_t>(rest.size(), entry_bytes)));
    if (fixed.size() < entry_bytes || !fixed.begins_with(entry_mark))
      fail(origin_, "its directory is damaged");
    const std::uint64_t size = entry_bytes + fixed.u16(28) + fixed.u16(30) + fixed.u16(32);
    if (size > rest.size()) fail(origin_, "its directory ends within a member");
    return size;
  }
  /// A member by the directory, all but the place of its bytes.
  ZipMember entry(const Record& record) const {
    const std::uint64_t name_size = record.u16(28), extra_size = record.u16(30);
    ZipMember member;
    member.name = record.text(entry_bytes, name_size);
    if (!stays_inside(member.name)) refuse(member.name, "has a name that leads out of a folder");
    if ((record.u16(8) & encrypted_flags) != 0) refuse(member.name, "is encrypted");
    if (record.u16(34) != 0) refuse(member.name, "is on another disk");
    member.method = static_cast<std::uint16_t>(record.u16(10));
    member.crc = static_cast<std::uint32_t>(record.u32(16));
    WideNumbers wide(record.text(entry_bytes + name_size, extra_size));
    const auto size = wide.in_place_of(record.u32(24));
    const auto packed_size = wide.in_place_of(record.u32(20));
    const auto begin = wide.in_place_of(record.u32(42));
    if (!size || !packed_size || !begin) refuse(member.name, "lacks its size or place");
    member.size = *size;
    member.packed_size = *packed_size;
    member.header_begin = *begin;
    if (member.is_stored() && member.size != member.packed_size)
      refuse(member.name,
             fmt::format("is stored in {} bytes, but has {}", member.packed_size, member.size));
    return member;
  }

  /// Reads the header in front of a member's bytes, which end at `end` or before.
  void locate(ZipMember& member, std::uint64_t end) const {
    if (member.header_begin > end || end - member.header_begin < header_bytes ||
        !record(member.header_begin, header_bytes).begins_with(header_mark))
      refuse(member.name, fmt::format("has no header at {}", member.header_begin));
    const Record header = record(member.header_begin, header_bytes);
    const std::uint64_t name_size = header.u16(26), extra_size = header.u16(28);
    const std::uint64_t rest = end - member.header_begin - header_bytes;
    if (name_size + extra_size > rest || member.packed_size > rest - name_size - extra_size)
      refuse(member.name,
             fmt::format("of {} bytes ends behind the directory's begin", member.packed_size));
    member.begin = member.header_begin + header_bytes + name_size + extra_size;
    const Record whole = record(member.header_begin, header_bytes + name_size + extra_size);
    if (whole.text(header_bytes, name_size) != member.name || header.u16(8) != member.method ||
        (header.u16(6) & encrypted_flags) != 0 ||
        !has_same_sizes(whole, name_size, extra_size, member))
      refuse(member.name, "has a header that contradicts the directory");
  }
  static bool has_same_sizes(const Record& header, std::uint64_t name_size,
                             std::uint64_t extra_size, const ZipMember& member) {
    const bool is_streamed = (header.u16(6) & streamed_flag) != 0;
    WideNumbers wide(header.text(header_bytes + name_size, extra_size));
    const auto size = wide.in_place_of(header.u32(22));
    const auto packed_size = wide.in_place_of(header.u32(18));
    const auto agrees = [&](std::optional<std::uint64_t> stated, std::uint64_t value) {
      return stated == value || (is_streamed && (!stated || *stated == 0));
    };
    return agrees(size, member.size) && agrees(packed_size, member.packed_size) &&
           agrees(header.u32(14), member.crc);
  }

  void check_names(const std::vector<ZipMember>& members) const {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const ZipMember& member : members) names.push_back(member.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) refuse(*twice, "is there twice");
  }
  void check_places(const std::vector<ZipMember>& members) const {
    std::vector<const ZipMember*> sorted;
    sorted.reserve(members.size());
    for (const ZipMember& member : members) sorted.push_back(&member);
    std::ranges::sort(sorted, {}, &ZipMember::header_begin);
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i]->header_begin < sorted[i - 1]->begin + sorted[i - 1]->packed_size)
        refuse(sorted[i]->name, fmt::format("overlaps {}", printable(sorted[i - 1]->name)));
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
};

}  // namespace

void fail(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("reading '{}': {}", origin, what),
              "the file is damaged: copy or write it again");
}

std::vector<ZipMember> read_directory(std::span<const std::byte> bytes, const std::string& origin) {
  return Directory(bytes, origin).read();
}

}  // namespace troupe::zip

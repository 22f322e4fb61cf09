#include "runtime/file/zip_writer.h"

#include <libdeflate.h>

#include <algorithm>

namespace troupe {
namespace {

constexpr std::uint64_t widest16 = 0xffff, widest32 = 0xffffffff;
constexpr std::uint64_t version = 45;  // of the format, with numbers of 64 bits
constexpr std::uint64_t utf8_flag = 1U << 11;

/// A record of little-endian numbers.
class Record {
 public:
  explicit Record(std::string_view mark) : text_(mark) {}

  Record& u16(std::uint64_t value) { return number(value, 2); }
  Record& u32(std::uint64_t value) { return number(value, 4); }
  Record& u64(std::uint64_t value) { return number(value, 8); }
  /// Or the mark of a number that is stated elsewhere.
  Record& narrow16(std::uint64_t value) { return u16(std::min(value, widest16)); }
  Record& narrow32(std::uint64_t value) { return u32(std::min(value, widest32)); }
  Record& text(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& bytes() const { return text_; }

 private:
  Record& number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string text_;
};

/// The extra field of numbers with 64 bits; none if all have 32.
std::string wide_field(std::initializer_list<std::uint64_t> numbers) {
  Record wide{""};
  for (const std::uint64_t number : numbers)
    if (number >= widest32) wide.u64(number);
  if (wide.bytes().empty()) return {};
  return Record("").u16(1).u16(wide.bytes().size()).text(wide.bytes()).bytes();
}

/// The extra field that moves what follows a header of so many bytes to a multiple of `alignment`:
/// FB as PyTorch has it.
std::string padding_field(std::uint64_t end) {
  constexpr std::uint64_t head = 4;
  const std::uint64_t rest = (end + head) % ZipWriter::alignment;
  const std::uint64_t fill = rest == 0 ? 0 : ZipWriter::alignment - rest;
  return Record("FB").u16(fill).text(std::string(fill, 'Z')).bytes();
}

/// What a member's header and its entry in the directory have in common, up to the lengths of the
/// extra field.
Record common(Record record, std::uint64_t crc, std::uint64_t size, std::string_view name) {
  record.u16(version).u16(utf8_flag).u16(0).u32(0).u32(crc);
  return record.narrow32(size).narrow32(size).u16(name.size());
}

}  // namespace

Status ZipWriter::write(std::span<const std::byte> bytes) {
  const std::uint64_t at = at_;
  at_ += bytes.size();
  return file_.write_at(at, bytes);
}

Status ZipWriter::add(std::string_view name, std::span<const std::byte> bytes) {
  constexpr std::uint64_t header_bytes = 30;
  const std::uint64_t begin = at_, size = bytes.size();
  const std::uint32_t crc = libdeflate_crc32(0, bytes.data(), bytes.size());
  // A wide size of the header has a wide packed size beside it.
  std::string extra = wide_field({size, size});
  extra += padding_field(begin + header_bytes + name.size() + extra.size());
  const Record header =
      common(Record("PK\3\4"), crc, size, name).u16(extra.size()).text(name).text(extra);
  const std::string entry_extra = wide_field({size, size, begin});
  directory_ += common(Record("PK\1\2").u16(version), crc, size, name)
                    .u16(entry_extra.size())
                    .u16(0)
                    .u16(0)
                    .u16(0)
                    .u32(0)
                    .narrow32(begin)
                    .text(name)
                    .text(entry_extra)
                    .bytes();
  ++members_;
  if (Status status = write(as_bytes(header.bytes())); !status) return status;
  return write(bytes);
}

Status ZipWriter::finish() {
  constexpr std::uint64_t rest_of_wide_end = 44;
  const std::uint64_t begin = at_, size = directory_.size();
  const Record wide_end = Record("PK\6\6")
                              .u64(rest_of_wide_end)
                              .u16(version)
                              .u16(version)
                              .u32(0)
                              .u32(0)
                              .u64(members_)
                              .u64(members_)
                              .u64(size)
                              .u64(begin);
  const Record locator = Record("PK\6\7").u32(0).u64(begin + size).u32(1);
  const Record end = Record("PK\5\6")
                         .u16(0)
                         .u16(0)
                         .narrow16(members_)
                         .narrow16(members_)
                         .narrow32(size)
                         .narrow32(begin)
                         .u16(0);
  return write(as_bytes(directory_ + wide_end.bytes() + locator.bytes() + end.bytes()));
}

}  // namespace troupe

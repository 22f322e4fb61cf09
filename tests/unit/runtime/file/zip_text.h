#pragma once
// Zip files for tests, whose headers may lie: PKWARE, "APPNOTE.TXT - .ZIP File Format
// Specification", 4.3.

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {

struct ZipMember {
  std::string name, content;
  bool deflated = false;
  // What its headers state; where left out, the truth.
  std::uint16_t flags = 0;
  int method = -1;
  std::int64_t size = -1;
  std::int64_t crc = -1;
};

inline std::string raw_deflate(const std::string& content) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string packed(content.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string zip_number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

inline std::string zip_of(const std::vector<ZipMember>& members) {
  std::string text, directory;
  for (const ZipMember& member : members) {
    const std::string packed = member.deflated ? raw_deflate(member.content) : member.content;
    const auto size =
        member.size < 0 ? member.content.size() : static_cast<std::size_t>(member.size);
    const auto crc = member.crc >= 0
                         ? static_cast<std::uint64_t>(member.crc)
                         : crc32(0, reinterpret_cast<const Bytef*>(member.content.data()),
                                 static_cast<uInt>(member.content.size()));
    const bool is_large = size >= 0xffffffffU;
    const std::string extra = is_large ? zip_number(1, 2) + zip_number(16, 2) +
                                             zip_number(size, 8) + zip_number(packed.size(), 8)
                                       : "";
    const int method = member.method < 0 ? (member.deflated ? 8 : 0) : member.method;
    const std::string common = zip_number(45, 2) + zip_number(member.flags, 2) +
                               zip_number(static_cast<std::uint64_t>(method), 2) +
                               zip_number(0, 4) + zip_number(crc, 4) +
                               zip_number(is_large ? 0xffffffffU : packed.size(), 4) +
                               zip_number(is_large ? 0xffffffffU : size, 4) +
                               zip_number(member.name.size(), 2) + zip_number(extra.size(), 2);
    directory += "PK\1\2" + zip_number(45, 2) + common + zip_number(0, 2 + 2 + 2 + 4) +
                 zip_number(text.size(), 4) + member.name + extra;
    text += "PK\3\4" + common + member.name + extra + packed;
  }
  const std::string end = "PK\5\6" + zip_number(0, 4) + zip_number(members.size(), 2) +
                          zip_number(members.size(), 2) + zip_number(directory.size(), 4) +
                          zip_number(text.size(), 4) + zip_number(0, 2);
  return text + directory + end;
}

}  // namespace troupe::test

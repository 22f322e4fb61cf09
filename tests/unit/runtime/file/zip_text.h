#pragma once
// Zip files for tests, whose headers may lie: PKWARE, "APPNOTE.TXT - .ZIP File Format
// Specification", 4.3.

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {

struct MadeMember {
  std::string name, content;
  bool deflated = false;
  // What its headers state; where left out, the truth.
  std::uint16_t flags = 0;
  int method = -1;
  std::int64_t size = -1;
  std::int64_t crc = -1;
  std::string own_name = {};  ///< in the member's own header
  bool wide = false;          ///< sizes and place have 64 bits in any case
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

/// What the headers of a member and of the directory have in common, extra field included.
inline std::string zip_header(const MadeMember& member, const std::string& name,
                              std::uint64_t packed_size, bool is_own, std::uint64_t begin) {
  const bool is_streamed = is_own && (member.flags & 8) != 0;  // what is not known yet is 0
  const auto size = member.size < 0 ? member.content.size() : static_cast<std::size_t>(member.size);
  const auto crc = member.crc >= 0 ? static_cast<std::uint64_t>(member.crc)
                                   : crc32(0, reinterpret_cast<const Bytef*>(member.content.data()),
                                           static_cast<uInt>(member.content.size()));
  const bool is_large = member.wide || size >= 0xffffffffU;
  std::string wide =
      zip_number(is_streamed ? 0 : size, 8) + zip_number(is_streamed ? 0 : packed_size, 8);
  if (!is_own && member.wide) wide += zip_number(begin, 8);
  const std::string extra = is_large ? "FB" + zip_number(2, 2) + "ZZ" + zip_number(1, 2) +
                                           zip_number(wide.size(), 2) + wide
                                     : "";
  const int method = member.method < 0 ? (member.deflated ? 8 : 0) : member.method;
  const auto shown = [&](std::uint64_t value) {
    return zip_number(is_large ? 0xffffffffU : is_streamed ? 0 : value, 4);
  };
  std::string text = zip_number(45, 2) + zip_number(member.flags, 2) +
                     zip_number(static_cast<std::uint64_t>(method), 2) + zip_number(0, 4) +
                     zip_number(is_streamed ? 0 : crc, 4) + shown(packed_size) + shown(size) +
                     zip_number(name.size(), 2) + zip_number(extra.size(), 2);
  if (!is_own)
    text += zip_number(0, 2 + 2 + 2 + 4) + zip_number(member.wide ? 0xffffffffU : begin, 4);
  return text + name + extra;
}

/// The end of an archive; a wide one has numbers of 64 bits.
inline std::string zip_end(std::size_t members, std::size_t begin, std::size_t size, bool wide) {
  std::string text;
  if (wide) {
    text += "PK\6\6" + zip_number(44, 8) + zip_number(45, 2) + zip_number(45, 2) +
            zip_number(0, 8) + zip_number(members, 8) + zip_number(members, 8) +
            zip_number(size, 8) + zip_number(begin, 8);
    text += "PK\6\7" + zip_number(0, 4) + zip_number(begin + size, 8) + zip_number(1, 4);
  }
  return text + "PK\5\6" + zip_number(0, 4) + zip_number(wide ? 0xffff : members, 2) +
         zip_number(wide ? 0xffff : members, 2) + zip_number(wide ? 0xffffffffU : size, 4) +
         zip_number(wide ? 0xffffffffU : begin, 4) + zip_number(0, 2);
}

/// An archive of 64 bits if its first member is wide.
inline std::string zip_of(const std::vector<MadeMember>& members) {
  std::string text, directory;
  for (const MadeMember& member : members) {
    const std::string packed = member.deflated ? raw_deflate(member.content) : member.content;
    directory += "PK\1\2" + zip_number(45, 2) +
                 zip_header(member, member.name, packed.size(), false, text.size());
    text += "PK\3\4" +
            zip_header(member, member.own_name.empty() ? member.name : member.own_name,
                       packed.size(), true, 0) +
            packed;
    if ((member.flags & 8) != 0) text += std::string(16, 'd');  // its sizes, which nobody reads
  }
  const bool wide = !members.empty() && members[0].wide;
  return text + directory + zip_end(members.size(), text.size(), directory.size(), wide);
}

}  // namespace troupe::test

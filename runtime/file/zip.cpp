#include "runtime/file/zip.h"

#include <fmt/format.h>
#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>

#include "runtime/file/file.h"
#include "runtime/file/gzip.h"
#include "runtime/file/zip_directory.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::uint16_t deflated = 8;

/// Unpacks exactly out.size() bytes; false if the packed bytes give other ones.
bool inflate(std::span<const std::byte> packed, std::span<std::byte> out) {
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) throw std::bad_alloc();
  std::byte nothing{};  // libdeflate takes no null pointers
  std::size_t read = 0, written = 0;
  const auto result = libdeflate_deflate_decompress_ex(
      decompressor.get(), packed.data(), packed.size(), out.empty() ? &nothing : out.data(),
      out.size(), &read, &written);
  return result == LIBDEFLATE_SUCCESS && read == packed.size() && written == out.size();
}

/// Unpacks the first out.size() bytes, by zlib: libdeflate unpacks all or nothing. False if the
/// packed bytes do not give them.
bool inflate_beginning(std::span<const std::byte> packed, std::span<std::byte> out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();  // negative: no header
  // zlib's interface predates const; it does not write its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in =
      static_cast<uInt>(std::min<std::size_t>(packed.size(), std::numeric_limits<uInt>::max()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = ::inflate(&stream, Z_SYNC_FLUSH);
  inflateEnd(&stream);
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  return stream.avail_out == 0;
}

}  // namespace

struct ZipArchive::State {
  std::span<const std::byte> bytes;
  std::string origin;
  std::shared_ptr<const void> owner;
  std::vector<ZipMember> members;
  std::vector<std::size_t> by_name;  ///< indices of members
  bool has_checksums = false;

  std::span<const std::byte> packed(const ZipMember& member) const {
    return bytes.subspan(member.begin, member.packed_size);
  }
};

ZipArchive ZipArchive::open(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse(file->bytes(), path.string(), file);
}

ZipArchive ZipArchive::parse(std::span<const std::byte> bytes, const std::string& origin,
                             std::shared_ptr<const void> owner) {
  const auto state = std::make_shared<State>();
  state->bytes = bytes;
  state->origin = origin;
  state->owner = std::move(owner);
  state->members = zip::read_directory(bytes, origin);
  state->by_name.resize(state->members.size());
  std::iota(state->by_name.begin(), state->by_name.end(), std::size_t{0});
  std::ranges::sort(state->by_name, {},
                    [&](std::size_t i) -> const std::string& { return state->members[i].name; });
  state->has_checksums =
      std::ranges::any_of(state->members, [](const ZipMember& member) { return member.crc != 0; });
  ZipArchive result;
  result.state_ = state;
  return result;
}

const std::string& ZipArchive::origin() const { return state_->origin; }
const std::vector<ZipMember>& ZipArchive::members() const { return state_->members; }
bool ZipArchive::has_checksums() const { return state_->has_checksums; }
const std::shared_ptr<const void>& ZipArchive::owner() const { return state_->owner; }

const ZipMember* ZipArchive::find(std::string_view name) const {
  const auto name_of = [this](std::size_t i) -> std::string_view {
    return state_->members[i].name;
  };
  const auto found = std::ranges::lower_bound(state_->by_name, name, {}, name_of);
  if (found == state_->by_name.end() || name_of(*found) != name) return nullptr;
  return &state_->members[*found];
}

const ZipMember& ZipArchive::at(std::string_view name) const {
  if (const ZipMember* member = find(name)) return *member;
  std::vector<std::string> names;
  for (const ZipMember& member : members()) names.push_back(printable(member.name));
  throw Error(ErrorCode::bad_file,
              fmt::format("reading '{}': it has no {}", origin(), printable(name)),
              fmt::format("it has {}", names.empty() ? "no members" : listed(names)));
}

void ZipArchive::fail(const ZipMember& member, const std::string& what) const {
  throw Error(ErrorCode::bad_file,
              fmt::format("reading {} in '{}': {}", printable(member.name), origin(), what),
              "the file is damaged: copy or write it again");
}

std::span<const std::byte> ZipArchive::stored(const ZipMember& member) const {
  if (!member.is_stored()) fail(member, "it is compressed where it has to be stored");
  return state_->packed(member);
}

void ZipArchive::verify(const ZipMember& member, std::span<const std::byte> bytes) const {
  if (!state_->has_checksums) return;
  const std::uint32_t crc = libdeflate_crc32(0, bytes.data(), bytes.size());
  if (crc != member.crc)
    fail(member, fmt::format("its CRC-32 is {:08x}, not {:08x} as stated", crc, member.crc));
}

void ZipArchive::check_method(const ZipMember& member) const {
  if (!member.is_stored() && member.method != deflated)
    fail(member, fmt::format("it is compressed by method {}, not deflated", member.method));
}

std::vector<std::byte> ZipArchive::beginning(const ZipMember& member,
                                             std::size_t most_bytes) const {
  check_method(member);
  std::vector<std::byte> out(std::min<std::uint64_t>(member.size, most_bytes));
  if (member.is_stored())
    std::ranges::copy(stored(member).first(out.size()), out.begin());
  else if (!out.empty() && !inflate_beginning(state_->packed(member), out))
    fail(member, fmt::format("its packed data do not give {} bytes", member.size));
  return out;
}

void ZipArchive::check_size(const ZipMember& member) const {
  check_method(member);
  if (member.size / gzip_largest_ratio > member.packed_size)
    fail(member,
         fmt::format("it states {} bytes, unpacked from {}", member.size, member.packed_size));
}

ZipContent ZipArchive::content(const ZipMember& member, std::uint64_t most_bytes) const {
  if (member.size > most_bytes)
    fail(member, fmt::format("it has {} bytes, more than {}", member.size, most_bytes));
  if (member.is_stored()) {
    const std::span<const std::byte> bytes = stored(member);
    verify(member, bytes);
    return {bytes, owner()};
  }
  check_size(member);
  const auto memory = std::make_shared_for_overwrite<std::byte[]>(member.size);
  const std::span<std::byte> out(memory.get(), member.size);
  read(member, out);
  return {out, memory};
}

void ZipArchive::read(const ZipMember& member, std::span<std::byte> out) const {
  check_size(member);
  if (out.size() != member.size)
    throw Error(ErrorCode::internal, fmt::format("{} has {} bytes, not {}", printable(member.name),
                                                 member.size, out.size()));
  if (member.is_stored())
    std::ranges::copy(stored(member), out.begin());
  else if (!inflate(state_->packed(member), out))
    fail(member, fmt::format("its packed data do not give {} bytes", member.size));
  verify(member, out);
}

}  // namespace troupe

#include "runtime/file/idx.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/gzip.h"

namespace troupe {
namespace {

constexpr unsigned unsigned_byte = 0x08;

/// The bytes of the IDX file, packed or not.
class Source {
 public:
  Source(std::span<const std::byte> bytes, const std::string& origin)
      : bytes_(bytes), origin_(origin) {
    if (GzipReader::is_gzip(bytes)) gzip_.emplace(bytes, origin);
  }

  [[noreturn]] void fail(const std::string& what, const char* remedy) const {
    throw Error(ErrorCode::bad_file, fmt::format("reading IDX file '{}': {}", origin_, what),
                remedy);
  }

  void read(std::span<std::byte> out) {
    if (gzip_) return gzip_->read(out);
    if (out.size() > bytes_.size() - at_)
      fail(fmt::format("it ends {} bytes too early", out.size() - (bytes_.size() - at_)),
           "the file is truncated: download it again");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + at_, out.size());
    at_ += out.size();
  }

  /// Refuses a promise of elements that the rest of the file cannot hold.
  void expect_room(const Shape& shape) const {
    const auto wanted = static_cast<std::size_t>(shape.element_count());
    const std::size_t room = gzip_ ? bytes_.size() * gzip_largest_ratio : bytes_.size() - at_;
    if (wanted > room)
      fail(fmt::format("its header states {} = {} bytes, but {} follow{}", to_string(shape), wanted,
                       room, gzip_ ? " at most" : ""),
           "the file is truncated or its header is damaged: download it again");
  }

  void expect_end() {
    if (gzip_) return gzip_->expect_end();
    if (at_ != bytes_.size())
      fail(
          fmt::format("{} bytes follow after the data that its header states", bytes_.size() - at_),
          "the file is damaged or of another kind");
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::optional<GzipReader> gzip_;
};

std::int64_t read_axis(Source& source) {
  std::array<std::byte, 4> raw{};
  source.read(raw);
  std::int64_t value = 0;
  for (std::byte byte : raw) value = value << 8 | std::to_integer<std::int64_t>(byte);
  return value;
}

Shape read_shape(Source& source) {
  std::array<std::byte, 4> magic{};
  source.read(magic);
  const auto type = std::to_integer<unsigned>(magic[2]);
  const auto rank = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type < 0x08 || type > 0x0e)
    source.fail(fmt::format("it begins with {:02x}{:02x}{:02x}{:02x}, not with 0000 and a type",
                            std::to_integer<unsigned>(magic[0]),
                            std::to_integer<unsigned>(magic[1]), type, rank),
                "give an IDX file, plain or gzipped");
  if (type != unsigned_byte)
    source.fail(fmt::format("its elements have the type 0x{:02x}", type),
                "only unsigned bytes (0x08) are read: convert it");
  if (rank > Shape::max_rank)
    source.fail(fmt::format("it has {} axes, more than {}", rank, Shape::max_rank),
                "its header is damaged or it is of another kind");
  std::array<std::int64_t, Shape::max_rank> dims{};
  for (int axis = 0; axis < rank; ++axis) dims[static_cast<std::size_t>(axis)] = read_axis(source);
  try {
    return Shape(std::span(dims).first(static_cast<std::size_t>(rank)));
  } catch (const Error& error) {
    source.fail("its header is invalid: " + error.message(), "the file is damaged: fetch it again");
  }
}

/// Memory outside of the caching allocator; its pages are taken as they are written.
std::shared_ptr<Storage> own_memory(std::size_t bytes) {
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
  return Storage::wrap(memory.get(), bytes, Device{}, memory);
}

std::size_t header_bytes(const Shape& shape) {
  return 4 + 4 * static_cast<std::size_t>(shape.rank());
}

}  // namespace

Tensor parse_idx(std::span<const std::byte> bytes, const std::string& origin) {
  Source source(bytes, origin);
  const Shape shape = read_shape(source);
  source.expect_room(shape);
  Tensor result = Tensor::empty(shape, DType::u8, Device::cpu());
  source.read({result.raw(), result.bytes()});
  source.expect_end();
  return result;
}

Tensor read_idx(const std::filesystem::path& path) {
  return parse_idx(MappedFile::open(path)->bytes(), path.string());
}

Shape read_idx_shape(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const std::string origin = path.string();
  Source source(file->bytes(), origin);
  const Shape shape = read_shape(source);
  source.expect_room(shape);
  return shape;
}

Tensor read_idx_rows(const std::filesystem::path& path, std::int64_t rows) {
  const auto file = MappedFile::open(path);
  const Shape all = read_idx_shape(path);
  if (all.rank() == 0 || rows < 0 || rows > all[0])
    throw Error(ErrorCode::bad_shape, fmt::format("reading {} rows of IDX file '{}', which has {}",
                                                  rows, path.string(), to_string(all)));
  const Shape shape = all.with_outer(rows);
  // The header is unpacked along with the elements, and the tensor begins behind it.
  const std::size_t offset = header_bytes(shape);
  const std::size_t size = offset + static_cast<std::size_t>(shape.element_count());
  auto storage = own_memory(size);
  const std::span<std::byte> out(storage->data(), size);
  if (rows < all[0] || !unpack_gzip(file->bytes(), out)) {
    const std::string origin = path.string();
    Source source(file->bytes(), origin);
    source.read(out);
    if (rows == all[0]) source.expect_end();
  }
  return Tensor::view(std::move(storage), offset, shape, DType::u8);
}

}  // namespace troupe

#include "runtime/file/npz.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/error.h"
#include "runtime/file/npy.h"
#include "runtime/text.h"
#include "runtime/world/memory_limit.h"

namespace troupe {
namespace {

ZipArchive open_zip(const std::filesystem::path& path) {
  try {
    return ZipArchive::open(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) throw;
    throw Error(error.code(), error.message(),
                "give a file that numpy.savez or numpy.savez_compressed has written");
  }
}

}  // namespace

NpzArchive::NpzArchive(const std::filesystem::path& path) : zip_(open_zip(path)) {}

std::vector<std::string> NpzArchive::names() const {
  std::vector<std::string> names;
  for (const ZipMember& member : zip_.members()) names.push_back(printable(member.name));
  return names;
}

std::string NpzArchive::origin(const std::string& name) const {
  return fmt::format("{} in {}", printable(name), zip_.origin());
}

std::vector<TensorInfo> NpzArchive::headers(const std::vector<std::string>& names) const {
  std::vector<TensorInfo> headers;
  const MemoryLimit limit = memory_limit();
  std::uint64_t total = 0;
  for (const std::string& name : names) {
    const ZipMember& member = zip_.at(name);
    const NpyHeader header =
        read_npy_header(zip_.beginning(member, npy_longest_header), member.size, origin(name));
    headers.push_back({name, header.dtype, header.shape});
    if (member.size > limit.bytes - total)
      throw Error(
          ErrorCode::bad_file,
          fmt::format("reading NumPy array '{}': it has {} bytes{}, but {} has a memory of {}",
                      origin(name), member.size,
                      total == 0 ? "" : fmt::format(", after {} of others", total), limit.holder,
                      limit.bytes),
          "save the arrays with numpy.save: such files need not fit into memory");
    total += member.size;
  }
  return headers;
}

Tensor NpzArchive::read(const std::string& name) const {
  (void)headers({name});  // compares what the header states with the size
  const ZipMember& member = zip_.at(name);
  zip_.check_size(member);
  const Tensor bytes =
      Tensor::empty(Shape{static_cast<std::int64_t>(member.size)}, DType::u8, Device::cpu());
  const std::span<std::byte> whole(bytes.raw(), bytes.bytes());
  zip_.read(member, whole);
  return parse_npy(whole, std::make_shared<Tensor>(bytes), origin(name));
}

}  // namespace troupe

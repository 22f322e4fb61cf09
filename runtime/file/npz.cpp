#include "runtime/file/npz.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/error.h"
#include "runtime/file/npy.h"
#include "runtime/physical_memory.h"
#include "runtime/text.h"

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

Tensor NpzArchive::read(const std::string& name) const {
  const ZipMember& member = zip_.at(name);
  const std::string origin = fmt::format("{} in {}", printable(name), zip_.origin());
  if (member.size > physical_memory_bytes())
    throw Error(ErrorCode::bad_file,
                fmt::format("reading NumPy array '{}': it has {} bytes, but this host has a memory "
                            "of {}",
                            origin, member.size, physical_memory_bytes()),
                "save the array with numpy.save: such files need not fit into memory");
  zip_.check_size(member);
  const Tensor bytes =
      Tensor::empty(Shape{static_cast<std::int64_t>(member.size)}, DType::u8, Device::cpu());
  const std::span<std::byte> whole(bytes.raw(), bytes.bytes());
  zip_.read(member, whole);
  return parse_npy(whole, std::make_shared<Tensor>(bytes), origin);
}

}  // namespace troupe

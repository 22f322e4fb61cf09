#include "runtime/file/writable.h"

#include <fmt/format.h>

#include <set>

#include "runtime/error.h"

namespace troupe::writable {

void check_names(const std::vector<TensorInfo>& tensors, const std::filesystem::path& path,
                 std::string_view reserved) {
  std::set<std::string_view> names;
  if (!reserved.empty()) names.insert(reserved);
  for (const TensorInfo& tensor : tensors)
    if (!names.insert(tensor.name).second)
      throw Error(ErrorCode::internal,
                  fmt::format("writing '{}': the name '{}' is taken", path.string(), tensor.name));
}

void check(const TensorInfo& announced, const Tensor& tensor, const std::filesystem::path& path) {
  const auto& [name, dtype, shape] = announced;
  if (!tensor.defined() || tensor.layout() != Layout::row_major || tensor.device() != Device{})
    throw Error(
        ErrorCode::internal,
        fmt::format("writing '{}': tensor '{}' is not row-major on the CPU", path.string(), name));
  if (tensor.dtype() != dtype || tensor.shape() != shape)
    throw Error(ErrorCode::internal,
                fmt::format("writing '{}': tensor '{}' is {} {}, announced as {} {}", path.string(),
                            name, name_of(tensor.dtype()), to_string(tensor.shape()),
                            name_of(dtype), to_string(shape)));
}

}  // namespace troupe::writable

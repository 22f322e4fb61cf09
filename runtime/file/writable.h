#pragma once
// What a writer of named tensors requires. Every error is an Error (internal) that names the file.

#include <filesystem>
#include <string_view>
#include <vector>

#include "runtime/tensor/named_tensor.h"

namespace troupe::writable {

/// Throws if two names are the same, or if one is `reserved`.
void check_names(const std::vector<TensorInfo>& tensors, const std::filesystem::path& path,
                 std::string_view reserved = {});

/// Throws unless the tensor is row-major on the CPU, and as its source has announced it.
void check(const TensorInfo& announced, const Tensor& tensor, const std::filesystem::path& path);

}  // namespace troupe::writable

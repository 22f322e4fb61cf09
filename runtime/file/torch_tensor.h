#pragma once
// Tensors in the pickles of PyTorch: views of storages that lie outside of the pickle.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/file/pickle.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A tensor as a pickle describes it. Text is owned by the pickle.
struct TorchTensor {
  std::string_view storage;     ///< its key, "0": the member data/0
  std::uint64_t storage_bytes;  ///< as the pickle states them
  DType dtype;
  std::int64_t offset;  ///< of the first element in the storage, in elements
  Shape shape;
  std::vector<std::int64_t> strides;  ///< in elements; one for each axis, not negative
};

/// What PyTorch calls an element type.
struct TorchTypeName {
  DType dtype;
  std::string_view storage;  ///< "FloatStorage"; empty if tensors of this type are made from bytes
  std::string_view name;     ///< "float32"
};
const TorchTypeName& torch_type_name(DType dtype);

/// Whether Python would make a tensor or parameter of the value (torch._utils._rebuild_…).
bool is_torch_tensor(const PickleValue& value);
/// Whether it is a tensor of integers or truth values, such as the state of a random generator.
bool is_integer_torch_tensor(const PickleValue& value);

/// Reads the description. Throws Error with `where`, a file and a name: unsupported for sparse and
/// quantized tensors, for element types that Troupe lacks and for more than six axes; bad_file for
/// damage, and for elements outside of the storage that the pickle states.
TorchTensor torch_tensor(const PickleValue& value, const std::string& where);

/// The element type of a name such as "float32" (torch.float32). Throws Error{unsupported}.
DType torch_dtype(std::string_view name, const std::string& where);

/// The bytes that elements_of copies or checks one by one; 0 if it only views them. `begin` is the
/// address of the storage, or its rest by 8.
std::uint64_t copied_bytes(const TorchTensor& tensor, std::uint64_t begin);

/// The elements, row-major. The tensor views the storage, which `owner` keeps, if its elements are
/// contiguous and aligned; else they are copied. Throws Error{bad_file} if elements lie outside of
/// the storage, if one of BOOL is neither 0 nor 1, and if a copy would exceed `most_bytes` (a
/// stride of 0 repeats elements).
Tensor elements_of(const TorchTensor& tensor, std::span<const std::byte> storage,
                   std::shared_ptr<const void> owner, std::uint64_t most_bytes,
                   const std::string& where);

}  // namespace troupe

#include "ops/graph/constants.h"

#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::graph {
namespace {

template <class T>
Tensor widened(const Tensor& tensor) {
  Tensor result = Tensor::empty(tensor.shape(), DType::i64, Device::cpu());
  for (std::int64_t e = 0; e < tensor.element_count(); ++e)
    result.data<std::int64_t>()[e] = static_cast<std::int64_t>(tensor.data<T>()[e]);
  return result;
}

}  // namespace

Tensor as_constant(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::i8:
      return widened<std::int8_t>(tensor);
    case DType::i16:
      return widened<std::int16_t>(tensor);
    case DType::i32:
      return widened<std::int32_t>(tensor);
    case DType::i64:
      return tensor;
    case DType::u8:
      return widened<std::uint8_t>(tensor);
    case DType::u16:
      return widened<std::uint16_t>(tensor);
    case DType::u32:
      return widened<std::uint32_t>(tensor);
    case DType::u64:
      return widened<std::uint64_t>(tensor);
    case DType::boolean:
      return widened<bool>(tensor);
    default:
      return cast(tensor, DType::f64);
  }
}

}  // namespace troupe::graph

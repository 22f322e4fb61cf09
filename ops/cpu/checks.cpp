#include "ops/cpu/checks.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe::cpu {
namespace {

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return fmt::format("{} {} in {}", name_of(tensor.dtype()), to_string(tensor.shape()),
                     name_of(tensor.layout()));
}

}  // namespace

void check_alike(const char* operation, const Tensor& a, const Tensor& b) {
  const bool alike = a.defined() && b.defined() && a.shape() == b.shape() &&
                     a.layout() == b.layout() && a.dtype() == DType::f32 && b.dtype() == DType::f32;
  if (!alike)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: one tensor is {}, the other {}; both must be f32 with the same "
                            "shape and layout",
                            operation, describe(a), describe(b)),
                "reorder one of them");
}

void check_vector(const char* operation, const char* name, const Tensor& tensor,
                  std::int64_t count) {
  if (!tensor.defined() || tensor.dtype() != DType::f32 || tensor.layout() != Layout::row_major ||
      tensor.element_count() != count)
    throw Error(ErrorCode::bad_shape, fmt::format("{}: {} is {}; it must be f32 with {} elements",
                                                  operation, name, describe(tensor), count));
}

}  // namespace troupe::cpu

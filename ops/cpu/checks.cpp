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

void check_alike(const char* operation, const Tensor& a, const Tensor& b, DType dtype) {
  const bool alike = a.defined() && b.defined() && a.shape() == b.shape() &&
                     a.layout() == b.layout() && a.dtype() == dtype && b.dtype() == dtype;
  if (!alike)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: one tensor is {}, the other {}; both must be {} with the same "
                            "shape and layout",
                            operation, describe(a), describe(b), name_of(dtype)),
                "reorder one of them");
}

void check_vector(const char* operation, const char* name, const Tensor& tensor, std::int64_t count,
                  DType dtype) {
  if (!tensor.defined() || tensor.dtype() != dtype || tensor.layout() != Layout::row_major ||
      tensor.element_count() != count)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} is {}; it must be {} with {} elements", operation, name,
                            describe(tensor), name_of(dtype), count));
}

}  // namespace troupe::cpu

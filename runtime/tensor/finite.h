#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The first element that is infinite or NaN, of a row-major tensor in the CPU's memory;
/// nothing if there is none, or if its elements are no floating point numbers. One pass over the
/// memory.
std::optional<std::int64_t> first_not_finite(const Tensor& tensor);

/// Such an element in a message: "nan", "inf" or "-inf".
std::string not_finite_text(const Tensor& tensor, std::int64_t element);

}  // namespace troupe

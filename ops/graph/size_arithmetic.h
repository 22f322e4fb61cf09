#pragma once
// Arithmetic of sizes that may grow with the samples. A function returns nothing where its result
// is no sum of a fixed part and one per sample, or overflows.

#include <cstdint>
#include <optional>

#include "ops/graph/shapes.h"

namespace troupe::graph {

std::optional<Size> add(const Size& a, const Size& b);
std::optional<Size> subtract(const Size& a, const Size& b);
std::optional<Size> multiply(const Size& a, const Size& b);
/// The quotient without remainder.
std::optional<Size> divide(const Size& a, const Size& b);

}  // namespace troupe::graph

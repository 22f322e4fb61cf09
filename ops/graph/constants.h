#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe::graph {

/// A tensor of any type as a graph keeps constants: i64 for integers and truth values, else f64.
Tensor as_constant(const Tensor& tensor);

}  // namespace troupe::graph

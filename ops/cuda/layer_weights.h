#pragma once
#include <cstdint>
#include <map>
#include <utility>

#include "ops/cuda/convert.h"
#include "ops/cuda/kernels.h"

namespace troupe::cuda {

/// The weight and bias that a LayerKernel uses.
struct LayerWeights {
  Tensor weight, bias;
  std::uint64_t version = 0;
  std::map<std::pair<Layout, DType>, Tensor> copies = {};  ///< of the weight, in other forms

  /// Whether they are other ones than before.
  bool use(const Tensor& new_weight, const Tensor& new_bias, std::uint64_t new_version) {
    if (weight.defined() && version == new_version) return false;
    *this = {new_weight, new_bias, new_version};
    return true;
  }
  /// The weight in a layout and type; a copy is made once for each version.
  const Tensor& weight_in(const Stream& stream, Layout layout, DType dtype) {
    if (layout == weight.layout() && dtype == weight.dtype()) return weight;
    Tensor& copy = copies[{layout, dtype}];
    if (!copy.defined()) copy = in_form(stream, weight, layout, dtype);
    return copy;
  }
};

/// bias_grad [C], if defined: the sum of grad over all axes but the second.
void bias_gradient(const Stream& stream, const Tensor& grad, Tensor& bias_grad);

}  // namespace troupe::cuda

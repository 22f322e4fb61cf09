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

  void use(const Tensor& new_weight, const Tensor& new_bias, std::uint64_t new_version) {
    if (!weight.defined() || version != new_version) *this = {new_weight, new_bias, new_version};
  }
  /// The weight in a layout and type; a copy is made once for each version.
  const Tensor& weight_in(const Stream& stream, Layout layout, DType dtype) {
    if (layout == weight.layout() && dtype == weight.dtype()) return weight;
    Tensor& copy = copies[{layout, dtype}];
    if (!copy.defined()) copy = in_form(stream, weight, layout, dtype);
    return copy;
  }
};

/// sums [C] = the sum of x, [N, C, H, W] or [N, C], over all axes but the second, in f32 for 16
/// bits.
void channel_sums(const Stream& stream, const Tensor& x, Tensor& sums);

}  // namespace troupe::cuda

#pragma once
#include <cstdint>
#include <map>
#include <utility>

#include "ops/cuda/kernels.h"
#include "runtime/device/device_stream.h"

namespace troupe::cuda {

/// The weight and bias that a LayerKernel uses.
struct LayerWeights {
  /// A weight or bias in another form.
  struct Copy {
    Tensor tensor;
    std::uint64_t version = 0;
  };
  Tensor weight, bias;
  std::uint64_t version = 0;
  std::map<std::pair<Layout, DType>, Copy> copies = {};
  std::map<DType, Copy> bias_copies = {};

  void use(const Tensor& new_weight, const Tensor& new_bias, std::uint64_t new_version) {
    weight = new_weight;
    bias = new_bias;
    version = new_version;
  }
  /// The weight in a layout and type, in a copy that keeps its address, for kernels of one stream.
  /// It is converted once for each version. A CUDA graph converts at each launch, which does not
  /// update `version`. A stage must therefore evaluate a version before it trains with it: the
  /// evaluation may convert an average of the weights into the same copy.
  const Tensor& weight_in(const Stream& stream, Layout layout, DType dtype) {
    return copy_of(stream, weight, copies[{layout, dtype}], layout, dtype);
  }
  /// The bias in a type, by the same rules; undefined if there is none.
  const Tensor& bias_in(const Stream& stream, DType dtype) {
    if (!bias.defined()) return bias;
    return copy_of(stream, bias, bias_copies[dtype], bias.layout(), dtype);
  }

 private:
  const Tensor& copy_of(const Stream& stream, const Tensor& from, Copy& copy, Layout layout,
                        DType dtype) const {
    if (layout == from.layout() && dtype == from.dtype()) return from;
    Tensor& tensor = copy.tensor;
    const bool is_repeated = device_stream(stream)->repeated_key().defined();
    if (tensor.defined() && copy.version == version && !is_repeated) return tensor;
    if (!tensor.defined()) {
      const LastingScope lasting;
      tensor = Tensor::empty(from.shape(), dtype, stream.device, layout);
    }
    reorder(stream, from, tensor);
    copy.version = version;
    return tensor;
  }
};

/// sums [C] = the sum of x, [N, C, H, W] or [N, C], over all axes but the second, in f32 for 16
/// bits.
void channel_sums(const Stream& stream, const Tensor& x, Tensor& sums);

}  // namespace troupe::cuda

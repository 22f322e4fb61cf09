#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// Scaled dot-product attention, as PyTorch's: y = softmax(scale * q k^T + mask) v over the keys
/// (A. Vaswani et al., "Attention is all you need", NeurIPS 2017). Takes q [..., tokens, features],
/// k [..., keys, features] and v [..., keys, outputs] with the same outer axes; gives [..., tokens,
/// outputs], row-major. A token that sees no key gets zeroes. Saves q, k, v, the mask and y; of
/// short sequences also the softmax, of long ones a number for each token (T. Dao et al.,
/// "FlashAttention", NeurIPS 2022).
struct Attention {
  static constexpr std::string_view name = "attention";

  bool causal = false;  ///< token i sees the keys 0 to i
  double scale = 0.0;   ///< 0: 1 / sqrt(features)
  Tensor mask = {};     ///< floating-point; broadcast to [..., tokens, keys]; undefined: none
  struct Saved {
    Tensor q, k, v, mask;
    AttentionOutput output;
    std::vector<Layout> layouts;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& q, const Tensor& k, const Tensor& v);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const {
    return {state.q, state.k, state.v, state.mask, state.output.y, state.output.saved};
  }

 private:
  AttentionOptions options(const Tensor& q) const;
};

}  // namespace troupe::primitives

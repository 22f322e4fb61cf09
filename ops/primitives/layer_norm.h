#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// Normalises the last axes of x, which have `features` elements, as PyTorch's LayerNorm (J. L. Ba,
/// J. R. Kiros, G. E. Hinton, "Layer normalization", 2016); row-major. The weight and the bias have
/// `features` elements in any shape. Saves x, and a mean and a deviation of each row. Throws
/// Error{bad_shape} unless some last axes of x have `features` elements together.
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";

  ParameterIndex weight, bias;  ///< not given: none
  std::int64_t features = 0;
  double epsilon = 1e-5;
  struct Saved {
    Tensor x;
    Layout x_layout = Layout::row_major;
    LayerNormOutput moments;  ///< without y
    NormGradients gradients;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  void weight_gradient(const Pass& pass);
  std::array<ParameterIndex, 2> parameters() const { return {weight, bias}; }
  std::vector<Tensor> saved() const;
};

}  // namespace troupe::primitives

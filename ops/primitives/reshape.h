#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// The same elements in (N, C, H, W) order under another shape, row-major.
struct Reshape {
  static constexpr std::string_view name = "reshape";

  Shape shape;
  struct Saved {
    Shape x_shape;
    Layout x_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

/// x [N, ...] as [N, everything else], as PyTorch's Flatten.
struct Flatten {
  static constexpr std::string_view name = "flatten";

  Reshape reshape = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
    reshape.input_gradient(pass, grad, inputs);
  }
};

}  // namespace troupe::primitives

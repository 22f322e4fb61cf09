#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// The sums or the means of x over axes, row-major. Negative axes count from the end; no axes means
/// all, as in PyTorch. Throws Error{bad_shape} for an axis that x does not have, or one given
/// twice.
struct Reduce {
  static constexpr std::string_view name = "reduce";

  std::vector<int> axes;
  bool keeps_axes = false;  ///< as axes of one element
  bool mean = true;
  struct Saved {
    Shape x_shape, kept_shape;
    Layout x_layout = Layout::row_major;
    double scale = 1.0;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

}  // namespace troupe::primitives

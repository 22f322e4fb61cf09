#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// exp(x) / sum(exp(x)) along an axis, or its logarithm, row-major. A negative axis counts from the
/// end. A line that contains NaN or +infinity, or only -infinity, becomes NaN. Saves its output.
/// Throws Error{bad_shape} for an axis that x does not have.
struct Softmax {
  static constexpr std::string_view name = "softmax";

  int axis = -1;
  bool logarithm = false;
  struct Saved {
    Tensor y;
    Layout x_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.y}; }
};

}  // namespace troupe::primitives

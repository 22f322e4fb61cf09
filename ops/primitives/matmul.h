#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// y = a b for a [..., m, k] and b [..., k, n] of at least two axes each; the outer axes are
/// broadcast, as PyTorch's matmul. With `transposed_a`, a is [..., k, m]; with `transposed_b`, b is
/// [..., n, k]. Row-major. Saves a and b.
struct Matmul {
  static constexpr std::string_view name = "matmul";

  MatmulOptions options = {};
  struct Saved {
    Tensor a, b;
    Layout a_layout = Layout::row_major, b_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& a, const Tensor& b);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.a, state.b}; }
};

}  // namespace troupe::primitives

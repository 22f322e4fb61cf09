#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// y = max(x, 0). Saves y.
struct Relu {
  static constexpr std::string_view name = "relu";

  struct Saved {
    Tensor y;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.y}; }
};

/// In training zeroes elements with the given probability and scales the others by
/// 1 / (1 - probability); otherwise y = x (N. Srivastava et al., "Dropout", JMLR 2014). Which ones
/// is a function of the pass's random key and the operation: nothing is saved.
struct Dropout {
  static constexpr std::string_view name = "dropout";

  double probability = 0.5;
  std::uint32_t operation = 0;  ///< operation_id of the dropout's path

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

}  // namespace troupe::primitives

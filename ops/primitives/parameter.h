#pragma once
#include <array>
#include <string_view>

#include "ops/tape.h"

namespace troupe::primitives {

/// A parameter itself as a value, without inputs: a table of positions, a class token, or a weight
/// that several operations share. Record it once in a pass: its gradient is then the sum over all
/// uses of the value.
struct Parameter {
  static constexpr std::string_view name = "parameter";

  ParameterIndex parameter;

  Tensor forward(const Pass& pass) const { return pass.weight(parameter); }
  void input_gradient(const Pass&, const Tensor&, std::span<InputGradient>) {}
  void weight_gradient(const Pass& pass, const Tensor& grad) const {
    pass.kernels().copy(pass.stream, grad, pass.weight_gradient(parameter));
  }
  std::array<ParameterIndex, 1> parameters() const { return {parameter}; }
};

}  // namespace troupe::primitives

#pragma once
// GELU as files write it in parts: x * (1 + erf(x / sqrt(2))) / 2 below opset 20, and
// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.

#include <cstdint>
#include <optional>

#include "ops/graph/graph.h"

namespace troupe::graph::onnx {

/// An intermediate result of a GELU of `x` written in parts; it gets no Value because the whole
/// becomes one operator.
struct GeluPart {
  enum class Step : std::uint8_t {
    cube,           ///< x^3
    scaled_cube,    ///< 0.044715 * x^3
    inner,          ///< x + 0.044715 * x^3
    scaled_inner,   ///< sqrt(2 / pi) * the former
    function,       ///< erf or tanh of its argument
    function_plus,  ///< 1 + the former
    half,           ///< half of the former
  };
  Step step = Step::function;
  bool tanh = false;
  ValueId x;
};

/// The part that an operation of another part and a number makes; nothing if it is none.
std::optional<GeluPart> gelu_part_with(const GeluPart& part, ArithmeticOperation operation,
                                       double number);

/// Whether this is sqrt(1/2), the factor of x in its error function, to the precision of f32.
bool is_root_of_half(double factor);

}  // namespace troupe::graph::onnx

#include "ops/graph/onnx_gelu.h"

#include <cmath>
#include <numbers>

namespace troupe::graph::onnx {
namespace {

bool is_near(double value, double wanted) {
  return std::abs(value - wanted) <= 1e-6 * std::abs(wanted);
}

}  // namespace

std::optional<GeluPart> gelu_part_with(const GeluPart& part, ArithmeticOperation operation,
                                       double number) {
  using Step = GeluPart::Step;
  const bool multiplies = operation == ArithmeticOperation::multiply;
  const auto becomes = [&](Step step) { return GeluPart{step, part.tanh, part.x}; };
  if (part.step == Step::cube && multiplies && is_near(number, 0.044715))
    return becomes(Step::scaled_cube);
  if (part.step == Step::inner && multiplies &&
      is_near(number, std::sqrt(2.0 * std::numbers::inv_pi)))
    return becomes(Step::scaled_inner);
  if (part.step == Step::function && operation == ArithmeticOperation::add && number == 1.0)
    return becomes(Step::function_plus);
  if (part.step == Step::function_plus && multiplies && number == 0.5) return becomes(Step::half);
  return std::nullopt;
}

bool is_root_of_half(double factor) { return is_near(factor, std::numbers::sqrt2 / 2); }

}  // namespace troupe::graph::onnx

// Dropout, also of whole channels, whose random numbers one primitive does not draw.

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/graph/recorder.h"
#include "ops/graph/steps.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/elementwise.h"

namespace troupe::graph {

primitives::Dropout Recorder::drawing(const Step& step, double probability) const {
  return {probability, operation_id(step.dropout_path)};
}

troupe::Value Recorder::dropout(const Step& step, const Node& node, const Dropout& options) {
  const troupe::Value x = input(node, 0);
  if (options.drawn_axes == 0) return tape_.record(drawing(step, options.probability), x);
  if (!tape_.pass().training) return x;
  std::vector<std::int64_t> sizes(tape_.tensor(x).shape().dims().begin(),
                                  tape_.tensor(x).shape().dims().end());
  std::fill(sizes.begin() + options.drawn_axes, sizes.end(), 1);
  const Pass& pass = tape_.pass();
  Tensor ones = Tensor::empty(Shape(sizes), pass.dtype, pass.stream.device);
  pass.kernels().fill(pass.stream, 1.0, ones);
  const troupe::Value mask =
      tape_.record(drawing(step, options.probability), tape_.input(std::move(ones), false));
  return tape_.record(primitives::Arithmetic{ArithmeticOperation::multiply}, x, mask);
}

}  // namespace troupe::graph

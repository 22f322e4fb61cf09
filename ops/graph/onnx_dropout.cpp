// Dropout(inplace=True), Dropout2d and stochastic depth, which the export writes as
// x * ((uniform numbers < keep) / keep).

#include <fmt/format.h>

#include "ops/graph/onnx_import.h"

namespace troupe::graph::onnx {

void random_uniform_like(Call& call) {
  const ValueId like = call.value(0);
  if (call.real("low", 0) != 0 || call.real("high", 1) != 1)
    call.refuse("its random numbers are not those of a dropout");
  call.give(DropoutPart{.shape = call.shape(like)});
}

void less(Call& call) {
  const auto& part = call.dropout(0);
  if (!part || part->step != DropoutPart::Step::noise || !call.is_known(1))
    call.refuse("it compares tensors");
  const double keep = real_of(call, *call.numbers(1));
  if (!(keep > 0 && keep <= 1))
    call.refuse(fmt::format("it keeps elements with probability {}", keep));
  call.give(DropoutPart{DropoutPart::Step::kept, part->shape, keep});
}

bool give_dropout(Call& call, ArithmeticOperation operation) {
  using Step = DropoutPart::Step;
  if (operation == ArithmeticOperation::divide && call.dropout(0) && call.is_known(1)) {
    const DropoutPart part = *call.dropout(0);
    if (part.step != Step::kept || real_of(call, *call.numbers(1)) != part.keep) return false;
    return call.give(DropoutPart{Step::scaled, part.shape, part.keep}), true;
  }
  if (operation != ArithmeticOperation::multiply) return false;
  for (const int i : {0, 1}) {
    if (!call.dropout(i) || call.dropout(1 - i)) continue;
    const DropoutPart part = *call.dropout(i);
    const ValueId x = call.value(1 - i);
    if (part.step != Step::scaled) return false;
    const double probability = shortest_decimal(static_cast<float>(1.0 - part.keep));
    const auto drop = dropout_of_mask(part.shape, call.shape(x), probability);
    if (!drop)
      call.refuse(fmt::format("it multiplies {} by random numbers {}", to_string(call.shape(x)),
                              to_string(part.shape)));
    return call.give(probability == 0 ? x : call.add(*drop, {x})), true;
  }
  return false;
}

}  // namespace troupe::graph::onnx

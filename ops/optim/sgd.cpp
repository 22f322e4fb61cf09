#include "ops/optim/sgd.h"

#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {

OptionFields Sgd::options() {
  return {field("train.momentum", momentum, "momentum", {.at_least = 0, .below = 1}),
          field("train.weight_decay", weight_decay,
                "factor of the weight that is added to the gradient, default 0.0005",
                {.at_least = 0, .at_most = 1e6, .synonyms = {"decay", "wd"}}),
          field("train.nesterov", nesterov, "Nesterov momentum")};
}

void Sgd::check() const {
  if (nesterov && momentum == 0)
    throw Error(ErrorCode::bad_options, "`nesterov` is true, but `momentum` is 0",
                "set `momentum`, for instance to 0.9");
}

std::vector<std::string> Sgd::state_names() const {
  return momentum == 0.0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
}

void Sgd::update(const Stream& stream, const OptimizerStep& step,
                 const OptimizerSlice& slice) const {
  Tensor none;
  Tensor new_weights = slice.new_weights;
  const MomentumStep factors{
      .lr = step.lr, .momentum = momentum, .weight_decay = weight_decay, .nesterov = nesterov};
  kernels(stream.device, new_weights.dtype())
      .momentum_step(stream, factors, slice.weights, slice.gradient,
                     slice.state.empty() ? none : slice.state[0], new_weights,
                     slice.new_state.empty() ? none : slice.new_state[0]);
}

}  // namespace troupe

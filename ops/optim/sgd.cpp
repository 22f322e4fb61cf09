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
  const UpdateBy<Sgd> update{*this, step, slice};
  update_all(stream, {&update, 1});
}

void Sgd::update_all(const Stream& stream, std::span<const UpdateBy<Sgd>> updates) {
  if (updates.empty()) return;
  std::vector<MomentumUpdate> all;
  for (const auto& [rule, step, slice] : updates)
    all.push_back({.factors = {.lr = step.lr,
                               .momentum = rule.momentum,
                               .weight_decay = rule.weight_decay,
                               .nesterov = rule.nesterov,
                               .scaling = step.scaling},
                   .weights = slice.weights,
                   .gradient = slice.gradient,
                   .momentum = slice.state.empty() ? Tensor() : slice.state[0],
                   .new_weights = slice.new_weights,
                   .new_momentum = slice.new_state.empty() ? Tensor() : slice.new_state[0]});
  kernels(stream.device, all.front().weights.dtype()).momentum_step(stream, all);
}

}  // namespace troupe

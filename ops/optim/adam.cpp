#include "ops/optim/adam.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {

template <bool decoupled>
OptionFields AdamOf<decoupled>::options() {
  const char* decay = decoupled ? "factor by which lr times the weight is subtracted, default 0.01"
                                : "factor of the weight that is added to the gradient, default 0";
  return {field("train.betas", betas,
                "factors of the moving averages of the gradient and of its square",
                {.at_least = 0,
                 .below = 1,
                 .synonyms = {"beta1", "beta2", "beta", "adam_beta1", "adam_beta2", "opt_betas"}}),
          field("train.epsilon", epsilon, "added to the square root of the average square",
                {.at_least = 0, .at_most = 1e6, .synonyms = {"eps"}}),
          field("train.weight_decay", weight_decay, decay,
                {.at_least = 0, .at_most = 1e6, .synonyms = {"decay", "wd"}})};
}

template <bool decoupled>
void AdamOf<decoupled>::check() const {
  if (betas.size() != 2)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} needs two `betas`, not {}", name, betas.size()),
                "give both, such as [0.9, 0.999]");
}

template <bool decoupled>
std::vector<std::string> AdamOf<decoupled>::state_names() const {
  return {"exp_avg", "exp_avg_sq"};
}

template <bool decoupled>
void AdamOf<decoupled>::update(const Stream& stream, const OptimizerStep& step,
                               const OptimizerSlice& slice) const {
  const UpdateBy<AdamOf> update{*this, step, slice};
  update_all(stream, {&update, 1});
}

template <bool decoupled>
void AdamOf<decoupled>::update_all(const Stream& stream,
                                   std::span<const UpdateBy<AdamOf>> updates) {
  if (updates.empty()) return;
  std::vector<AdamUpdate> all;
  for (const auto& [rule, step, slice] : updates) {
    const auto count = static_cast<double>(step.updates + 1);
    all.push_back({.factors = {.lr = step.lr,
                               .beta1 = rule.betas[0],
                               .beta2 = rule.betas[1],
                               .correction1 = 1.0 - std::pow(rule.betas[0], count),
                               .correction2 = 1.0 - std::pow(rule.betas[1], count),
                               .epsilon = rule.epsilon,
                               .weight_decay = rule.weight_decay,
                               .decoupled_decay = decoupled,
                               .scaling = step.scaling},
                   .weights = slice.weights,
                   .gradient = slice.gradient,
                   .exp_avg = slice.state[0],
                   .exp_avg_sq = slice.state[1],
                   .new_weights = slice.new_weights,
                   .new_exp_avg = slice.new_state[0],
                   .new_exp_avg_sq = slice.new_state[1]});
  }
  kernels(stream.device, all.front().weights.dtype()).adam_step(stream, all);
}

template struct AdamOf<false>;
template struct AdamOf<true>;

}  // namespace troupe

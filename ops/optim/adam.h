#pragma once
#include "ops/optim/optimizer.h"

namespace troupe {

/// PyTorch's Adam, or with `decoupled` its AdamW, with amsgrad false: the update of the kernel
/// adam_step (ops/kernel_list.inc). Keeps the state tensors "exp_avg" and "exp_avg_sq", the moving
/// averages of the gradient and of its square. Their bias is corrected for the number of updates;
/// steps without a gradient do not count.
template <bool decoupled>
struct AdamOf {
  static constexpr std::string_view name = decoupled ? "adamw" : "adam";
  static constexpr double usual_lr = 0.001;  // PyTorch's default
  std::vector<double> betas = {0.9, 0.999};  ///< what the two averages keep in an update
  double epsilon = 1e-8;                     ///< added to the square root
  /// Adam adds weight_decay times the weight to the gradient; AdamW instead multiplies the weight
  /// by 1 - lr * weight_decay.
  double weight_decay = decoupled ? 0.01 : 0.0;

  OptionFields options();
  void check() const;
  std::vector<std::string> state_names() const;
  bool keeps_zeroes() const { return epsilon > 1e-30; }  // if it is 0 in f32, 0 / 0 is NaN
  void update(const Stream& stream, const OptimizerStep& step, const OptimizerSlice& slice) const;
  static void update_all(const Stream& stream, std::span<const UpdateBy<AdamOf>> updates);
};

using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

}  // namespace troupe

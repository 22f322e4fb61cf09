#pragma once
#include "ops/optim/optimizer.h"

namespace troupe {

/// PyTorch's SGD without dampening. Keeps the state tensor "momentum" where `momentum` is not 0; in
/// the first step it starts as the gradient itself.
struct Sgd {
  static constexpr std::string_view name = "sgd";
  double momentum = 0.0;
  double weight_decay = 0.0;  ///< added to the gradient
  bool nesterov = false;

  OptionFields options();
  void check() const;
  std::vector<std::string> state_names() const;
  bool keeps_zeroes() const { return true; }
  void update(const Stream& stream, const OptimizerStep& step, const OptimizerSlice& slice) const;
  static void update_all(const Stream& stream, std::span<const UpdateBy<Sgd>> updates);
};

}  // namespace troupe

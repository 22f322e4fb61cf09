#pragma once
#include <optional>
#include <vector>

#include "actors/gradient_tree.h"
#include "actors/messages.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct ReducerOptions {
  DType dtype = DType::f32;
  Stream stream;
};

/// Sums the gradients of a stage's micro-batches, from all of its replicas, in the fixed tree, and
/// gives the sum back to each of them. One a stage of the pipeline.
class Reducer final : public Actor {
 public:
  using Options = ReducerOptions;
  explicit Reducer(ReducerOptions options = {}) : options_(options) {}

  Input<Gradient> gradient{this, "gradient"};
  Output<ReducedGradient> reduced{this, "reduced"};

  bool ready() const override;
  ActionLabel act() override;
  /// The sums of micro-batches that are done are here alone: without them the step begins again.
  bool needs_whole_step() const override { return true; }
  FiringRules firing_rules() const override;

 private:
  void take_gradient();

  ReducerOptions options_;
  std::optional<GradientTree> tree_;  ///< of the open step, from its first gradient on
  std::vector<Tensor> statistics_;
  Header header_;
  std::optional<Tensor> sum_;  ///< whole, not sent yet
};

}  // namespace troupe

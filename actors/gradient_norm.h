#pragma once
#include <cstdint>
#include <map>

#include "actors/messages.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct GradientNormOptions {
  std::uint32_t stages = 1;
};

/// Computes the 2-norm of a step's gradient over all parameters of the model, for stages that clip
/// by it (Optimizer::with_clip_norm), or that scale losses and skip a step if its gradient is not
/// finite (LossScaleOptions). Each stage sends the sum of squares of the gradient of each of its
/// parameters. These are added in the order of the model, so the bits do not depend on the
/// partition. Replicas have the same gradient: one of each stage sends, all receive.
class GradientNorm final : public Actor {
 public:
  using Options = GradientNormOptions;
  explicit GradientNorm(GradientNormOptions options = {}) : options_(options) {}

  /// The micro-batch of a key is the number of the stage.
  Input<GradientSquares> squares{this, "squares"};
  Output<GradientNormOfStep> norm{this, "norm"};

  bool ready() const override { return squares.ready() && norm.has_slot(); }
  ActionLabel act() override;
  /// It acts once a step, not once a micro-batch.
  FiringRules firing_rules() const override { return {}; }

 private:
  GradientNormOptions options_;
  std::map<std::uint32_t, Held<GradientSquares>> held_;  ///< of the open step, by stage
};

}  // namespace troupe

#pragma once
#include "actors/messages.h"
#include "ops/kernels.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct LossOptions {
  Stream stream;
};

/// Softmax cross-entropy: logits and classes in, their gradient and a score out. The loss of a step
/// is the mean over all of its samples, so a micro-batch's gradient is divided by that number.
/// Fails with bad_shape where logits are not [samples, classes] or targets not [samples] of i64.
class Loss final : public Actor {
 public:
  using Options = LossOptions;
  explicit Loss(LossOptions options = {}) : options_(options) {}

  Input<Activation> logits{this, "logits"};
  Input<Targets> targets{this, "targets"};
  Output<OutputGradient> logits_gradient{this, "logits_gradient"};
  Output<Score> score{this, "score", Connection::optional};

  ActionLabel act() override;
  std::string refusal(const InputPort& port, const Actor& sender) const override;

 private:
  LossOptions options_;
};

}  // namespace troupe

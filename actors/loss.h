#pragma once
#include "actors/messages.h"
#include "ops/loss.h"
#include "runtime/device/own_stream.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct LossOptions {
  Stream stream;  ///< device, precision and threads of the actor's stream
  LossFunction function = {};
};

/// Computes a score and the gradient of the outputs from a model's outputs and targets. The loss of
/// a step is the mean over all of its samples, so a micro-batch's gradient is divided by that
/// number. Label smoothing and class weights apply to training only. Evaluations and `evaluate` do
/// without them, so that runs with different values can be compared. Throws Error{bad_options} as
/// check(LossFunction). Fails with bad_shape if the targets do not fit the outputs (loss_of).
class Loss final : public Actor {
 public:
  using Options = LossOptions;
  explicit Loss(LossOptions options = {});

  Input<Activation> logits{this, "logits"};
  Input<Targets> targets{this, "targets"};
  Output<OutputGradient> logits_gradient{this, "logits_gradient"};
  Output<Score> score{this, "score", Connection::optional};

  ActionLabel act() override;
  DeviceStream* stream() const override { return stream_.device_stream(); }
  std::string refusal(const InputPort& port, const Actor& sender) const override;

 private:
  LossOptions options_;
  OwnStream stream_;
};

}  // namespace troupe

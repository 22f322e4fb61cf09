#include "actors/loss.h"

#include <fmt/format.h>

namespace troupe {

ActionLabel Loss::act() {
  const auto x = logits.take();
  const auto classes = targets.take();
  const MessageKey key = x.header.key;
  if (classes.header.key != key)
    throw Error(
        ErrorCode::internal,
        fmt::format("logits of step {}, micro-batch {} met targets of step {}, micro-batch {}",
                    key.step, key.micro_batch, classes.header.key.step,
                    classes.header.key.micro_batch));
  const bool train = key.purpose == Purpose::train;
  const double scale = 1.0 / x.header.batch_samples;
  const auto result =
      kernels(options_.stream.device, x->tensor.dtype())
          .softmax_cross_entropy(options_.stream, x->tensor, classes->classes, scale, train);
  if (train) logits_gradient.send(x.header, {result.logits_grad});
  score.send(x.header, {result.loss_sum, result.correct});
  logits.release(x);
  targets.release(classes);
  return {"L", key};
}

}  // namespace troupe

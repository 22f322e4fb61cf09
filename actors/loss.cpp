#include "actors/loss.h"

#include <fmt/format.h>

#include "actors/stage.h"
#include "ops/loss.h"
#include "ops/on_device.h"

namespace troupe {

Loss::Loss(LossOptions options) : options_(options) {
  if (!(options_.label_smoothing >= 0 && options_.label_smoothing < 1))
    throw Error(ErrorCode::bad_options,
                fmt::format("`label_smoothing` is {}", options_.label_smoothing),
                "give a number from 0, less than 1");
}

std::string Loss::refusal(const InputPort& port, const Actor& sender) const {
  const auto* stage = dynamic_cast<const Stage*>(&sender);
  if (&port != &logits || !stage || !stage->part()) return {};
  return Stage::gap_between(stage->part()->blocks.last, stage->part()->of);
}

ActionLabel Loss::act() {
  const auto x = logits.take();
  const auto wanted = targets.take();
  const MessageKey key = x.header.key;
  if (wanted.header.key != key)
    throw Error(
        ErrorCode::internal,
        fmt::format("logits of step {}, micro-batch {} with targets of step {}, micro-batch {}",
                    key.step, key.micro_batch, wanted.header.key.step,
                    wanted.header.key.micro_batch));
  const bool train = key.purpose == Purpose::train;
  const double scale = 1.0 / x.header.batch_samples;
  const Stream& stream = options_.stream;
  const LossOutput result =
      softmax_cross_entropy(stream, on_device(stream, x->tensor), on_device(stream, wanted->tensor),
                            scale, train, train ? options_.label_smoothing : 0.0);
  if (train) logits_gradient.send(x.header, {result.logits_grad});
  const LossTotals totals = read_totals(stream, result);
  score.send(x.header, {totals.loss_sum, totals.correct});
  logits.release(x);
  targets.release(wanted);
  return {"L", key};
}

}  // namespace troupe

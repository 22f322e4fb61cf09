#include "actors/loss.h"

#include <fmt/format.h>

#include "actors/stage.h"
#include "ops/on_device.h"

namespace troupe {

Loss::Loss(LossOptions options) : options_(std::move(options)) { check(options_.function); }

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
  const LossOutput result = loss_of(stream, options_.function, on_device(stream, x->tensor),
                                    wanted->tensor, scale, train);
  if (train) logits_gradient.send(x.header, {result.logits_grad});
  const LossTotals totals = read_totals(stream, result);
  score.send(x.header,
             {totals.loss_sum,
              options_.function.has_accuracy() ? std::optional(totals.correct) : std::nullopt});
  logits.release(x);
  targets.release(wanted);
  return {"L", key};
}

}  // namespace troupe

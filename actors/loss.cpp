#include "actors/loss.h"

#include <fmt/format.h>

#include "actors/stage.h"
#include "ops/on_device.h"

namespace troupe {

namespace {

/// The totals of a micro-batch, and the gradient of its logits in training.
struct MicroBatchLoss {
  LossTotals totals;
  Tensor gradient;
};

MicroBatchLoss plain(const Stream& stream, const LossFunction& function, const Tensor& logits,
                     const Tensor& targets, double scale, bool train) {
  const LossOutput output = loss_of(stream, function, logits, targets, scale, train);
  return {read_totals(stream, output), output.logits_grad};
}

/// Of mixed samples: the loss is linear in the targets. A sample is correct if its larger share is.
MicroBatchLoss mixed(const Stream& stream, const LossFunction& function, const Tensor& logits,
                     const Targets& targets, double scale) {
  const double share = targets.share, rest = 1 - share;
  MicroBatchLoss own = plain(stream, function, logits, targets.tensor, scale * share, true);
  const MicroBatchLoss other =
      plain(stream, function, logits, targets.partners, scale * rest, true);
  kernels(logits.device(), logits.dtype()).accumulate(stream, own.gradient, other.gradient);
  own.totals = {share * own.totals.loss_sum + rest * other.totals.loss_sum,
                share >= rest ? own.totals.correct : other.totals.correct};
  return own;
}

}  // namespace

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
  const Tensor outputs = on_device(stream, x->tensor);
  const MicroBatchLoss result =
      wanted->partners.defined()
          ? mixed(stream, options_.function, outputs, *wanted, scale)
          : plain(stream, options_.function, outputs, wanted->tensor, scale, train);
  if (train) logits_gradient.send(x.header, {result.gradient});
  const LossTotals& totals = result.totals;
  score.send(x.header,
             {totals.loss_sum,
              options_.function.has_accuracy() ? std::optional(totals.correct) : std::nullopt});
  logits.release(x);
  targets.release(wanted);
  return {"L", key};
}

}  // namespace troupe

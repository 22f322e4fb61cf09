#include "actors/loss.h"

#include <fmt/format.h>

#include "actors/stage.h"
#include "ops/widened.h"

namespace troupe {

Loss::Loss(LossOptions options) : options_(std::move(options)), stream_(options_.stream) {
  check(options_.function);
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
  const Stream& stream = stream_.get();
  const LossFunction& function = options_.function;
  const Tensor outputs = widened(stream, on_device(stream, x->tensor));
  const bool mixed = wanted->partners.defined();
  const double share = mixed ? wanted->share : 1;
  LossOutput own = loss_of(stream, function, outputs, wanted->tensor, scale * share, train);
  Score scored{.totals = to_cpu(stream, own.totals),
               .partners = {},
               .share = share,
               .has_accuracy = function.has_accuracy()};
  if (mixed) {
    const LossOutput other =
        loss_of(stream, function, outputs, wanted->partners, scale * (1 - share), train);
    if (train)
      kernels(outputs.device(), outputs.dtype())
          .accumulate(stream, own.logits_grad, other.logits_grad);
    scored.partners = to_cpu(stream, other.totals);
  }
  if (train) logits_gradient.send(x.header, {std::move(own.logits_grad)});
  score.send(x.header, std::move(scored));
  logits.release(x);
  targets.release(wanted);
  return {"L", key};
}

}  // namespace troupe

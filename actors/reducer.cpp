#include "actors/reducer.h"

namespace troupe {

bool Reducer::ready() const { return sum_ ? reduced.has_slot() : gradient.ready(); }

ActionLabel Reducer::act() {
  if (!sum_) {
    header_ = gradient.header();
    take_gradient();
    sum_ = tree_->sum();
    if (!sum_ || !reduced.has_slot()) return {"R", header_.key};
  }
  Header about = header_;
  about.key.micro_batch = 0;  // of the step as a whole
  reduced.send(about, {std::move(*sum_), std::move(statistics_)});
  sum_.reset();
  tree_.reset();
  return {"R", header_.key};
}

void Reducer::take_gradient() {
  const auto held = gradient.take();
  const std::uint32_t count = held.header.micro_batches;
  if (!tree_) {
    tree_.emplace(count, kernels(options_.stream.device, options_.dtype), options_.stream);
    statistics_.assign(count, Tensor{});
  }
  statistics_.at(held.header.key.micro_batch) = held->statistics;
  tree_->add(held.header.key.micro_batch, held->weights);
  gradient.release(held);
}

FiringRules Reducer::firing_rules() const {
  // `reduced` goes once a step, not once a micro-batch: no part of this.
  return {{{.name = "R", .takes = {{&gradient}}, .releases = {{&gradient}}, .fills = {}}}, {}};
}

}  // namespace troupe

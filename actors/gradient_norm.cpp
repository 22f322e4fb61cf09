#include "actors/gradient_norm.h"

#include <cmath>
#include <utility>

namespace troupe {

// What has arrived is released only when the norm is sent: the next incarnation receives it again.
ActionLabel GradientNorm::act() {
  auto taken = squares.take();
  const MessageKey key{taken.header.key.step, Purpose::train, 0};
  held_.insert_or_assign(taken.header.key.micro_batch, std::move(taken));
  if (held_.size() < options_.stages) return {"collect", key};
  double total = 0;
  for (const auto& [stage, of_stage] : held_)
    for (const double square : of_stage->sums.elements<double>()) total += square;
  const LossScale scale = held_.begin()->second->loss_scale;  // the same in all stages
  norm.send({.key = key}, {std::sqrt(total) / scale.scale, scale});
  for (const auto& [stage, of_stage] : held_) squares.release(of_stage);
  held_.clear();
  return {"N", key};
}

}  // namespace troupe

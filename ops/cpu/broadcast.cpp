#include "ops/cpu/broadcast.h"

#include <algorithm>

namespace troupe::cpu {

RowWalk::RowWalk(const BroadcastPlan& plan, int axes, std::int64_t begin, std::int64_t end)
    : plan_(plan), axes_(axes), at_(begin), end_(end) {
  if (!done()) find();
}

void RowWalk::next() {
  at_ += run_;
  if (!done()) find();
}

void RowWalk::find() {
  offsets_ = {};
  run_ = end_ - at_;
  std::int64_t rest = at_;
  for (int axis = axes_ - 1; axis >= 0; --axis) {
    const BroadcastPlan::Axis& a = plan_.axes[static_cast<std::size_t>(axis)];
    const std::int64_t place = rest % a.size;
    rest /= a.size;
    for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += place * a.steps[i];
    if (axis == axes_ - 1) run_ = std::min(run_, a.size - place);
  }
}

}  // namespace troupe::cpu

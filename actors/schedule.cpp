#include "actors/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"

namespace troupe {

std::string_view name_of(ScheduleKind kind) {
  return std::ranges::find(schedule_names, kind, &decltype(schedule_names)::value_type::second)
      ->first;
}

StageSchedule stage_schedule(ScheduleKind kind, std::size_t stage, std::size_t stages,
                             std::size_t micro_batches) {
  if (kind == ScheduleKind::gpipe)
    return {.credits = static_cast<std::uint32_t>(micro_batches), .flush_before_backward = true};
  const bool h1 = kind == ScheduleKind::zero_bubble_h1, h2 = kind == ScheduleKind::zero_bubble_h2;
  const bool eager = h2 || kind == ScheduleKind::eager_one_forward_one_backward;
  const std::size_t from_here = stages - stage;
  const auto at_most_all = [&](std::size_t count) {
    return static_cast<std::uint32_t>(std::min(count, micro_batches));
  };
  StageSchedule schedule{.credits = at_most_all(eager ? 2 * from_here - 1 : from_here)};
  // The first stage has no input gradient to send.
  if ((h1 || h2) && stage > 0)
    schedule.deferred_weight_gradients = at_most_all(h2 ? 2 * stage : stage);
  return schedule;
}

// A stage keeps an input until its weight gradient is made: those of the deferred ones, and the one
// at work.
EdgeSlots slots_between(const StageSchedule& stage, const StageSchedule& next) {
  return {.outputs = stage.credits + next.max_deferred(),
          .gradients = 2 + stage.deferred_weight_gradients.value_or(0)};
}

// A stage that flushes takes no gradient before its last forward: they all wait in their slots.
EdgeSlots slots_to_loss(const StageSchedule& last) {
  return {.outputs = 2, .gradients = last.credits + 1 + last.deferred_weight_gradients.value_or(0)};
}

std::optional<StageAction> next_action(const StageView& view, const StageSchedule& schedule) {
  const std::uint32_t limit =
      schedule.deferred_weight_gradients.value_or(0);  // of deferred weight gradients
  if (view.can_update) return StageAction::update;
  if (view.can_run_deferred && view.deferred > limit) return StageAction::weight_gradient;
  if (view.can_forward && view.in_flight < schedule.credits) return StageAction::forward;
  const bool flushed = view.all_forwarded || !schedule.flush_before_backward;
  if (view.can_backward && flushed && view.deferred <= limit) return StageAction::backward;
  // Below the limit, a stage that expects an output gradient waits for it: the stage before needs
  // what backward makes of it.
  const bool expects_gradient = view.in_flight > 0 && view.gradient_may_come;
  if (view.can_run_deferred && (view.deferred == limit || !expects_gradient))
    return StageAction::weight_gradient;
  if (view.can_evaluate) return StageAction::evaluate;
  return std::nullopt;
}

}  // namespace troupe

#pragma once
#include <algorithm>

#include "actors/schedule_simulation.h"

namespace troupe::testing {

/// The order of stage `stage` as the papers draw it (their names are at stage_schedule), of those
/// schedules whose backward is whole.
inline std::vector<ScheduleAction> static_order(ScheduleKind kind, std::size_t stage,
                                                std::size_t stages, std::size_t micro_batches) {
  const std::size_t after = stages - stage - 1;
  const std::size_t ahead = kind == ScheduleKind::gpipe                      ? micro_batches
                            : kind == ScheduleKind::one_forward_one_backward ? after
                                                                             : 2 * after;
  const std::size_t warm_up = std::min(ahead, micro_batches);
  std::vector<ScheduleAction> order;
  std::uint32_t forward = 0, backward = 0;
  while (forward < warm_up) order.push_back({StageAction::forward, forward++});
  while (forward < micro_batches) {
    order.push_back({StageAction::forward, forward++});
    order.push_back({StageAction::backward, backward++});
  }
  while (backward < micro_batches) order.push_back({StageAction::backward, backward++});
  return order;
}

}  // namespace troupe::testing

#pragma once
// Simulates a step of a pipeline by the decisions of its stages: for plans, summaries and tests.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/schedule.h"

namespace troupe {

/// One action of a stage in a step.
struct ScheduleAction {
  StageAction action = StageAction::forward;
  std::uint32_t micro_batch = 0;
  friend bool operator==(const ScheduleAction&, const ScheduleAction&) = default;
};

/// An action with its time, in a simulated step.
struct TimedAction {
  std::size_t stage = 0;
  ScheduleAction scheduled;
  double begin = 0, end = 0;
};

/// Times of one micro-batch in a stage.
struct StageTimes {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  double backward() const { return input_gradient + weight_gradient; }
};

/// Simulates one step with `next_action`. Communication takes no time.
std::vector<TimedAction> simulate(ScheduleKind kind, std::size_t micro_batches,
                                  const std::vector<StageTimes>& stages);

double end_of(const std::vector<TimedAction>& actions);
/// The idle share of the time until the last action ends, as the mean over all `stages`.
double idle_share(const std::vector<TimedAction>& actions, std::size_t stages);

/// One line per stage, one column per unit of time: "F0 F1 .. B0", and "W0" where a weight gradient
/// is an action of its own.
std::string draw(const std::vector<TimedAction>& actions, std::size_t width);

}  // namespace troupe

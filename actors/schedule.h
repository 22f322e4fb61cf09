#pragma once
// A schedule is credits and priorities, not a table: each stage decides from what it has at hand.
// Tests hold the order that emerges to the static orders of the literature.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_forward_one_backward,
  eager_one_forward_one_backward
};

/// All of them, with the names that options give them.
inline constexpr std::array<std::pair<std::string_view, ScheduleKind>, 3> schedule_names{{
    {"gpipe", ScheduleKind::gpipe},
    {"1f1b", ScheduleKind::one_forward_one_backward},
    {"eager_1f1b", ScheduleKind::eager_one_forward_one_backward},
}};

std::vector<std::string_view> known_schedules();  ///< their names

/// Throws Error{bad_options} with the known names.
ScheduleKind schedule_kind(const std::string& name);

/// What makes a stage follow a schedule. Within its credits it goes forward before backward.
struct StageSchedule {
  std::uint32_t credits = 1;           ///< micro-batches that may be between forward and backward
  bool flush_before_backward = false;  ///< all forwards of the step come first
};

/// The schedule of stage `stage` of `stages` with `micro_batches` for each replica and step.
///
/// 1F1B: stage i may hold p - i micro-batches and fills them up before it goes backward (D.
/// Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019,
/// section 3.2). GPipe: all of them, all forwards first (Y. Huang et al., "GPipe", NeurIPS 2019,
/// section 2.3). Eager 1F1B: 2 (p - i) - 1, so that a stage has work at hand while what it waits
/// for is on its way, or comes late from a stage that takes longer (Y. Zhuang et al., "On
/// optimizing the communication of model parallelism", MLSys 2023).
StageSchedule stage_schedule(ScheduleKind kind, std::size_t stage, std::size_t stages,
                             std::size_t micro_batches);

/// What a stage sees when it decides.
struct StageView {
  bool can_update = false;      ///< the reduced gradient is there
  bool can_backward = false;    ///< an output gradient and free slots for what it makes
  bool can_forward = false;     ///< an activation of the open step and a free output slot
  bool can_evaluate = false;    ///< the same for a forward-only micro-batch
  bool all_forwarded = false;   ///< every micro-batch of the step went forward here
  std::uint32_t in_flight = 0;  ///< forward done, backward not
};

enum class StageAction : std::uint8_t { forward, backward, update, evaluate };

/// The next thing to do, or nothing. Pure.
std::optional<StageAction> next_action(const StageView& view, const StageSchedule& schedule);

/// One thing that a stage does in a step.
struct ScheduledStep {
  StageAction action = StageAction::forward;
  std::uint32_t micro_batch = 0;
  friend bool operator==(const ScheduledStep&, const ScheduledStep&) = default;
};

/// What a stage does when, in a step without disturbance.
struct TimedStep {
  std::size_t stage = 0;
  ScheduledStep step;
  double begin = 0, end = 0;
};

/// Plays one step by `next_action` with given times; communication costs nothing.
std::vector<TimedStep> simulate(ScheduleKind kind, std::size_t micro_batches,
                                const std::vector<double>& forward_times,
                                const std::vector<double>& backward_times);

/// One line a stage, one column a unit of time: "F0 F1 .. B0".
std::string draw(const std::vector<TimedStep>& steps, std::size_t width);

}  // namespace troupe

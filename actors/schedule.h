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
  eager_one_forward_one_backward,
  zero_bubble_h1,
  zero_bubble_h2
};

/// All of them, with the names that options give them.
inline constexpr std::array<std::pair<std::string_view, ScheduleKind>, 5> schedule_names{{
    {"gpipe", ScheduleKind::gpipe},
    {"1f1b", ScheduleKind::one_forward_one_backward},
    {"eager_1f1b", ScheduleKind::eager_one_forward_one_backward},
    {"zb_h1", ScheduleKind::zero_bubble_h1},
    {"zb_h2", ScheduleKind::zero_bubble_h2},
}};

std::vector<std::string_view> known_schedules();  ///< their names

/// Throws Error{bad_options} with the known names.
ScheduleKind schedule_kind(const std::string& name);
std::string_view name_of(ScheduleKind kind);

/// What makes a stage follow a schedule. Within its credits it goes forward before backward; a
/// weight gradient that it owes comes last, and waits for what may come in a moment as long as it
/// may owe more.
struct StageSchedule {
  std::uint32_t credits = 1;           ///< micro-batches that may be between forward and backward
  bool flush_before_backward = false;  ///< all forwards of the step come first
  /// Where set, a backward is two actions: the input gradient, which leaves at once, since the
  /// stage before waits for it, and the weight gradient. Of these so many may be owed while there
  /// is other work.
  std::optional<std::uint32_t> weight_delay = {};

  /// Micro-batches between the halves of their backward: those that may be owed, and one in hand.
  std::uint32_t most_owed() const { return weight_delay ? *weight_delay + 1 : 0; }
};

/// The schedule of stage `stage` of `stages` with `micro_batches` for each replica and step.
///
/// 1F1B: stage i may hold p - i micro-batches and fills them up before it goes backward (D.
/// Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019,
/// section 3.2). GPipe: all of them, all forwards first (Y. Huang et al., "GPipe", NeurIPS 2019,
/// section 2.3). Eager 1F1B: 2 (p - i) - 1, so that a stage has work at hand while what it waits
/// for is on its way, or comes late from a stage that takes longer (Y. Zhuang et al., "On
/// optimizing the communication of model parallelism", MLSys 2023).
///
/// ZB-H1 and ZB-H2 take the backward of all stages but the first apart (P. Qi et al., "Zero bubble
/// pipeline parallelism", ICLR 2024, sections 2 and 3). H1 has the credits of 1F1B, and stage i
/// owes i weight gradients; H2 has those of the eager one, and stage i owes 2i: as many as a stage
/// has left to do after its last input gradient, while that one goes back through the others.
StageSchedule stage_schedule(ScheduleKind kind, std::size_t stage, std::size_t stages,
                             std::size_t micro_batches);

/// Slots of the edges between a stage and the next one, or the loss: enough that no stage waits for
/// one while its schedule lets it go on.
struct EdgeSlots {
  std::uint32_t outputs = 0;    ///< there
  std::uint32_t gradients = 0;  ///< and back
};
EdgeSlots slots_between(const StageSchedule& stage, const StageSchedule& next);
EdgeSlots slots_to_loss(const StageSchedule& last);

/// What a stage sees when it decides.
struct StageView {
  bool can_update = false;        ///< the reduced gradient is there
  bool can_backward = false;      ///< an output gradient and free slots for what it makes
  bool can_forward = false;       ///< an activation of the open step and a free output slot
  bool can_evaluate = false;      ///< the same for a forward-only micro-batch
  bool all_forwarded = false;     ///< every micro-batch of the step went forward here
  std::uint32_t in_flight = 0;    ///< forward done, backward not
  std::uint32_t owed = 0;         ///< micro-batches whose weight gradient is still to be made
  bool can_weigh = false;         ///< there is one, and free slots for its next bucket
  bool gradient_may_come = true;  ///< its edge has a slot for one
};

/// `backward` is the whole of it, or where a schedule has a weight delay the input gradient.
/// `weight_gradient` is what was owed, or the next bucket of a backward that has begun.
enum class StageAction : std::uint8_t { forward, backward, weight_gradient, update, evaluate };

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

/// What a micro-batch takes in a stage.
struct StageTimes {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  double backward() const { return input_gradient + weight_gradient; }
};

/// Plays one step by `next_action`; communication costs nothing.
std::vector<TimedStep> simulate(ScheduleKind kind, std::size_t micro_batches,
                                const std::vector<StageTimes>& stages);

double end_of(const std::vector<TimedStep>& steps);
/// The part of the time until the end in which a stage, on average of all `stages`, does nothing.
double idle_share(const std::vector<TimedStep>& steps, std::size_t stages);

/// One line a stage, one column a unit of time: "F0 F1 .. B0", and "W0" where a weight gradient is
/// an action of its own.
std::string draw(const std::vector<TimedStep>& steps, std::size_t width);

}  // namespace troupe

#pragma once
// A schedule is a credit limit and priorities, not a table: each stage decides by itself what to do
// next. Tests compare the resulting order with the static orders of the literature.

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

/// All schedules, with their names in options files.
inline constexpr auto schedule_names = std::to_array<std::pair<std::string_view, ScheduleKind>>({
    {"gpipe", ScheduleKind::gpipe},
    {"1f1b", ScheduleKind::one_forward_one_backward},
    {"eager_1f1b", ScheduleKind::eager_one_forward_one_backward},
    {"zb_h1", ScheduleKind::zero_bubble_h1},
    {"zb_h2", ScheduleKind::zero_bubble_h2},
});

std::string_view name_of(ScheduleKind kind);

/// The parameters of a stage's schedule. Within its credits, a stage runs a forward pass before a
/// backward pass. Deferred weight gradients come last. While fewer than the limit are deferred,
/// they also wait for an expected output gradient.
struct StageSchedule {
  std::uint32_t credits = 1;           ///< micro-batches that may be between forward and backward
  bool flush_before_backward = false;  ///< all forward passes of the step come first
  /// If set, a backward pass has two actions: the input gradient, which is sent at once because the
  /// previous stage waits for it, and the weight gradient. The value is the number of weight
  /// gradients that may be deferred while there is other work.
  std::optional<std::uint32_t> deferred_weight_gradients = {};

  /// The maximum number of micro-batches between the two halves of their backward pass: the
  /// deferred ones and the current one.
  std::uint32_t max_deferred() const {
    return deferred_weight_gradients ? *deferred_weight_gradients + 1 : 0;
  }
};

/// The schedule of stage `stage` of `stages` with `micro_batches` for each replica and step.
///
/// 1F1B: stage i may hold p - i micro-batches and runs forward passes until it does (D. Narayanan
/// et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019, section 3.2).
/// GPipe: all micro-batches, all forward passes first (Y. Huang et al., "GPipe", NeurIPS 2019,
/// section 2.3). Eager 1F1B: 2 (p - i) - 1, so that a stage has other work while a message is in
/// flight or late (Y. Zhuang et al., "On optimizing the communication of model parallelism", MLSys
/// 2023).
///
/// ZB-H1 and ZB-H2 split the backward pass of all stages except the first (P. Qi et al., "Zero
/// bubble pipeline parallelism", ICLR 2024, sections 2 and 3). ZB-H1 has the credits of 1F1B, and
/// stage i defers i weight gradients. ZB-H2 has the credits of eager 1F1B, and stage i defers 2i.
/// Stage i can compute 2i weight gradients after its last input gradient, while the earlier stages
/// run their last backward passes.
StageSchedule stage_schedule(ScheduleKind kind, std::size_t stage, std::size_t stages,
                             std::size_t micro_batches);

/// Slots of the edges between a stage and the next one, or the loss: enough that no stage waits for
/// a slot while its schedule allows an action.
struct EdgeSlots {
  std::uint32_t outputs = 0;    ///< of activations
  std::uint32_t gradients = 0;  ///< of output gradients
};
EdgeSlots slots_between(const StageSchedule& stage, const StageSchedule& next);
EdgeSlots slots_to_loss(const StageSchedule& last);

/// The input of a stage's decision.
struct StageView {
  bool can_update = false;        ///< the reduced gradient has arrived
  bool can_backward = false;      ///< an output gradient and free slots for the results
  bool can_forward = false;       ///< an activation of the open step and a free output slot
  bool can_evaluate = false;      ///< the same for a forward-only micro-batch
  bool all_forwarded = false;     ///< every micro-batch of the step went forward here
  std::uint32_t in_flight = 0;    ///< forward done, backward not
  std::uint32_t deferred = 0;     ///< micro-batches whose weight gradient is deferred
  bool can_run_deferred = false;  ///< a deferred weight gradient and free slots for its next bucket
  bool gradient_may_come = true;  ///< the edge of output gradients has a free slot
};

/// `backward` is the whole backward, or with deferred weight gradients the input gradient.
/// `weight_gradient` is a deferred weight gradient, or the next bucket of a backward that has
/// begun.
enum class StageAction : std::uint8_t { forward, backward, weight_gradient, update, evaluate };

/// The next action, or none. A pure function.
std::optional<StageAction> next_action(const StageView& view, const StageSchedule& schedule);

}  // namespace troupe

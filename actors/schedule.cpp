#include "actors/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace troupe {

std::vector<std::string_view> known_schedules() {
  std::vector<std::string_view> known(schedule_names.size());
  std::ranges::transform(schedule_names, known.begin(), [](const auto& one) { return one.first; });
  return known;
}

ScheduleKind schedule_kind(const std::string& name) {
  for (const auto& [its_name, kind] : schedule_names)
    if (name == its_name) return kind;
  throw Error(ErrorCode::bad_options, fmt::format("`PipelineOptions::schedule` is '{}'", name),
              fmt::format("use one of {}", fmt::join(known_schedules(), ", ")));
}

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
  if ((h1 || h2) && stage > 0) schedule.weight_delay = at_most_all(h2 ? 2 * stage : stage);
  return schedule;
}

// A stage keeps an input until its weight gradient is made: those of the deferred ones, and the one
// at work.
EdgeSlots slots_between(const StageSchedule& stage, const StageSchedule& next) {
  return {.outputs = stage.credits + next.max_deferred(),
          .gradients = 2 + stage.weight_delay.value_or(0)};
}

// A stage that flushes takes no gradient before its last forward: they all wait in their slots.
EdgeSlots slots_to_loss(const StageSchedule& last) {
  return {.outputs = 2, .gradients = last.credits + 1 + last.weight_delay.value_or(0)};
}

std::optional<StageAction> next_action(const StageView& view, const StageSchedule& schedule) {
  const std::uint32_t limit = schedule.weight_delay.value_or(0);  // of deferred weight gradients
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

namespace {

// A stage in the simulation: what it did and what has arrived at which time.
struct Simulated {
  StageTimes times;
  StageSchedule schedule;
  std::vector<double> activations = {}, gradients = {};  // arrival times, by micro-batch
  std::uint32_t forwarded = 0, returned = 0, weight_gradients = 0;
  double free_at = 0;

  bool splits() const { return schedule.weight_delay.has_value(); }
  std::uint32_t deferred() const { return splits() ? returned - weight_gradients : 0; }
  double time_of(StageAction action) const {
    if (action == StageAction::forward) return times.forward;
    if (action == StageAction::weight_gradient) return times.weight_gradient;
    return splits() ? times.input_gradient : times.backward();
  }
  /// Begins the action; returns its micro-batch.
  std::uint32_t begin(StageAction action) {
    if (action == StageAction::forward) return forwarded++;
    return action == StageAction::weight_gradient ? weight_gradients++ : returned++;
  }
};

struct Choice {
  std::size_t stage = 0;
  StageAction action{};
  double when = 0;
};

// What a stage does next and when, as far as is known now: at the first moment at which it can do
// anything, it picks by priority.
std::optional<Choice> choice_of(const std::vector<Simulated>& all, std::size_t index,
                                std::size_t micro_batches) {
  const Simulated& stage = all[index];
  std::vector<double> moments{stage.free_at};
  if (stage.forwarded < stage.activations.size())
    moments.push_back(std::max(stage.free_at, stage.activations[stage.forwarded]));
  if (stage.returned < stage.gradients.size())
    moments.push_back(std::max(stage.free_at, stage.gradients[stage.returned]));
  std::ranges::sort(moments);
  for (double now : moments) {
    const auto arrived = [&](const std::vector<double>& times, std::uint32_t next) {
      return next < times.size() && times[next] <= now;
    };
    const auto next = next_action({.can_backward = arrived(stage.gradients, stage.returned),
                                   .can_forward = arrived(stage.activations, stage.forwarded),
                                   .all_forwarded = stage.forwarded == micro_batches,
                                   .in_flight = stage.forwarded - stage.returned,
                                   .deferred = stage.deferred(),
                                   .can_run_deferred = stage.deferred() > 0},
                                  stage.schedule);
    if (next) return Choice{index, *next, now};
  }
  return std::nullopt;
}

// The stage that can begin something earliest, the first of several.
Choice earliest(const std::vector<Simulated>& all, std::size_t micro_batches) {
  std::optional<Choice> best;
  for (std::size_t s = 0; s < all.size(); ++s)
    if (const auto choice = choice_of(all, s, micro_batches); choice)
      if (!best || choice->when < best->when) best = choice;
  if (!best) throw Error(ErrorCode::internal, "a schedule deadlocks in the simulation");
  return *best;
}

/// What it begins with in a drawing, and what its time is filled with.
std::pair<char, char> look_of(StageAction action) {
  if (action == StageAction::forward) return {'F', '-'};
  if (action == StageAction::weight_gradient) return {'W', '~'};
  return {'B', '='};
}

}  // namespace

std::vector<TimedStep> simulate(ScheduleKind kind, std::size_t micro_batches,
                                const std::vector<StageTimes>& stages) {
  std::vector<Simulated> all;
  std::size_t actions = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    all.push_back({stages[s], stage_schedule(kind, s, stages.size(), micro_batches)});
    actions += (all[s].splits() ? 3 : 2) * micro_batches;
  }
  all[0].activations.assign(micro_batches, 0.0);
  std::vector<TimedStep> steps;
  while (steps.size() < actions) {
    const Choice next = earliest(all, micro_batches);
    Simulated& stage = all[next.stage];
    const double end = next.when + stage.time_of(next.action);
    steps.push_back({next.stage, {next.action, stage.begin(next.action)}, next.when, end});
    stage.free_at = end;
    const bool last = next.stage + 1 == stages.size();
    if (next.action == StageAction::forward)
      (last ? stage.gradients : all[next.stage + 1].activations).push_back(end);
    if (next.action == StageAction::backward && next.stage > 0)
      all[next.stage - 1].gradients.push_back(end);
  }
  return steps;
}

double end_of(const std::vector<TimedStep>& steps) {
  double end = 0;
  for (const TimedStep& step : steps) end = std::max(end, step.end);
  return end;
}

double idle_share(const std::vector<TimedStep>& steps, std::size_t stages) {
  double busy = 0;
  for (const TimedStep& step : steps) busy += step.end - step.begin;
  return 1 - busy / (end_of(steps) * static_cast<double>(stages));
}

std::string draw(const std::vector<TimedStep>& steps, std::size_t width) {
  std::size_t stages = 0;
  for (const TimedStep& step : steps) stages = std::max(stages, step.stage + 1);
  const double end = end_of(steps);
  const std::size_t margin = 9;
  const std::size_t columns = width > margin + 20 ? width - margin : 20;
  std::string picture;
  for (std::size_t s = 0; s < stages; ++s) {
    std::string line(columns, '.');
    for (const TimedStep& step : steps) {
      if (step.stage != s) continue;
      const auto column = [&](double t) {
        return static_cast<std::size_t>(std::lround(t / end * static_cast<double>(columns)));
      };
      const auto [letter, filling] = look_of(step.step.action);
      std::string label = std::to_string(step.step.micro_batch);
      for (std::size_t c = column(step.begin); c < column(step.end) && c < columns; ++c) {
        const std::size_t at = c - column(step.begin);
        line[c] = at == 0 ? letter : at <= label.size() ? label[at - 1] : filling;
      }
    }
    picture += fmt::format("stage {:<2} {}\n", s, line);
  }
  return picture;
}

}  // namespace troupe

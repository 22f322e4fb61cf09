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
  throw Error(ErrorCode::bad_options, fmt::format("parallel.schedule is '{}'", name),
              fmt::format("use one of {}", fmt::join(known_schedules(), ", ")));
}

StageSchedule stage_schedule(ScheduleKind kind, std::size_t stage, std::size_t stages,
                             std::size_t micro_batches) {
  if (kind == ScheduleKind::gpipe)
    return {.credits = static_cast<std::uint32_t>(micro_batches), .flush_before_backward = true};
  const std::size_t from_here = stages - stage;
  const bool eager = kind == ScheduleKind::eager_one_forward_one_backward;
  return {.credits = static_cast<std::uint32_t>(
              std::min(eager ? 2 * from_here - 1 : from_here, micro_batches))};
}

std::optional<StageAction> next_action(const StageView& view, const StageSchedule& schedule) {
  if (view.can_update) return StageAction::update;
  const bool forward = view.can_forward && view.in_flight < schedule.credits;
  const bool backward =
      view.can_backward && (view.all_forwarded || !schedule.flush_before_backward);
  if (forward) return StageAction::forward;
  if (backward) return StageAction::backward;
  if (view.can_evaluate) return StageAction::evaluate;
  return std::nullopt;
}

namespace {

// A stage in the simulation: what it did and what has arrived at which time.
struct Simulated {
  StageSchedule schedule;
  std::vector<double> activations = {}, gradients = {};  // arrival times, by micro-batch
  std::uint32_t forwarded = 0, returned = 0;
  double free_at = 0;
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
                                   .in_flight = stage.forwarded - stage.returned},
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
  if (!best) throw Error(ErrorCode::internal, "a schedule stands still in the simulation");
  return *best;
}

}  // namespace

std::vector<TimedStep> simulate(ScheduleKind kind, std::size_t micro_batches,
                                const std::vector<double>& forward_times,
                                const std::vector<double>& backward_times) {
  const std::size_t stages = forward_times.size();
  std::vector<Simulated> all;
  for (std::size_t s = 0; s < stages; ++s)
    all.push_back({stage_schedule(kind, s, stages, micro_batches)});
  all[0].activations.assign(micro_batches, 0.0);
  std::vector<TimedStep> steps;
  while (steps.size() < 2 * stages * micro_batches) {
    const Choice next = earliest(all, micro_batches);
    Simulated& stage = all[next.stage];
    const bool forward = next.action == StageAction::forward;
    const double end = next.when + (forward ? forward_times : backward_times)[next.stage];
    const std::uint32_t micro_batch = forward ? stage.forwarded++ : stage.returned++;
    stage.free_at = end;
    steps.push_back({next.stage, {next.action, micro_batch}, next.when, end});
    if (forward && next.stage + 1 < stages) all[next.stage + 1].activations.push_back(end);
    if (forward && next.stage + 1 == stages) stage.gradients.push_back(end);
    if (!forward && next.stage > 0) all[next.stage - 1].gradients.push_back(end);
  }
  return steps;
}

std::string draw(const std::vector<TimedStep>& steps, std::size_t width) {
  std::size_t stages = 0;
  double end = 0;
  for (const TimedStep& step : steps) {
    stages = std::max(stages, step.stage + 1);
    end = std::max(end, step.end);
  }
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
      const bool forward = step.step.action == StageAction::forward;
      std::string label = std::to_string(step.step.micro_batch);
      for (std::size_t c = column(step.begin); c < column(step.end) && c < columns; ++c) {
        const std::size_t at = c - column(step.begin);
        line[c] = at == 0              ? (forward ? 'F' : 'B')
                  : at <= label.size() ? label[at - 1]
                                       : (forward ? '-' : '=');
      }
    }
    picture += fmt::format("stage {:<2} {}\n", s, line);
  }
  return picture;
}

}  // namespace troupe

#include "actors/schedule_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/error.h"

namespace troupe {
namespace {

// A stage in the simulation: what it did and what has arrived at which time.
struct Simulated {
  StageTimes times;
  StageSchedule schedule;
  std::vector<double> activations = {}, gradients = {};  // arrival times, by micro-batch
  std::uint32_t forwarded = 0, returned = 0, weight_gradients = 0;
  double free_at = 0;

  bool splits() const { return schedule.deferred_weight_gradients.has_value(); }
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

std::vector<TimedAction> simulate(ScheduleKind kind, std::size_t micro_batches,
                                  const std::vector<StageTimes>& stages) {
  std::vector<Simulated> all;
  std::size_t count = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    all.push_back({stages[s], stage_schedule(kind, s, stages.size(), micro_batches)});
    count += (all[s].splits() ? 3 : 2) * micro_batches;
  }
  all[0].activations.assign(micro_batches, 0.0);
  std::vector<TimedAction> actions;
  while (actions.size() < count) {
    const Choice next = earliest(all, micro_batches);
    Simulated& stage = all[next.stage];
    const double end = next.when + stage.time_of(next.action);
    actions.push_back({next.stage, {next.action, stage.begin(next.action)}, next.when, end});
    stage.free_at = end;
    const bool last = next.stage + 1 == stages.size();
    if (next.action == StageAction::forward)
      (last ? stage.gradients : all[next.stage + 1].activations).push_back(end);
    if (next.action == StageAction::backward && next.stage > 0)
      all[next.stage - 1].gradients.push_back(end);
  }
  return actions;
}

double end_of(const std::vector<TimedAction>& actions) {
  double end = 0;
  for (const TimedAction& action : actions) end = std::max(end, action.end);
  return end;
}

double idle_share(const std::vector<TimedAction>& actions, std::size_t stages) {
  double busy = 0;
  for (const TimedAction& action : actions) busy += action.end - action.begin;
  return 1 - busy / (end_of(actions) * static_cast<double>(stages));
}

std::string draw(const std::vector<TimedAction>& actions, std::size_t width) {
  std::size_t stages = 0;
  for (const TimedAction& action : actions) stages = std::max(stages, action.stage + 1);
  const double end = end_of(actions);
  const std::size_t margin = 9;
  const std::size_t columns = width > margin + 20 ? width - margin : 20;
  std::string picture;
  for (std::size_t s = 0; s < stages; ++s) {
    std::string line(columns, '.');
    for (const TimedAction& action : actions) {
      if (action.stage != s) continue;
      const auto column = [&](double t) {
        return static_cast<std::size_t>(std::lround(t / end * static_cast<double>(columns)));
      };
      const auto [letter, filling] = look_of(action.scheduled.action);
      std::string label = std::to_string(action.scheduled.micro_batch);
      for (std::size_t c = column(action.begin); c < column(action.end) && c < columns; ++c) {
        const std::size_t at = c - column(action.begin);
        line[c] = at == 0 ? letter : at <= label.size() ? label[at - 1] : filling;
      }
    }
    picture += fmt::format("stage {:<2} {}\n", s, line);
  }
  return picture;
}

}  // namespace troupe

// The schedule of one step that `troupe plan` draws.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "actors/schedule_simulation.h"
#include "apps/output/progress.h"
#include "apps/output/report.h"
#include "apps/plan/planned_run.h"
#include "apps/train/training.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// The measured times of each stage, in milliseconds.
std::vector<StageTimes> stage_times(const PipelineOptions& pipeline) {
  std::vector<StageTimes> stages(pipeline.partition.size());
  for (std::size_t stage = 0, block = 0; stage < pipeline.partition.size(); ++stage)
    for (std::size_t i = 0; i < pipeline.partition[stage]; ++i, ++block) {
      const BlockCosts& costs = pipeline.block_costs[block];
      stages[stage].forward += milliseconds(costs.forward);
      stages[stage].input_gradient += milliseconds(costs.input_gradient);
      stages[stage].weight_gradient += milliseconds(costs.backward - costs.input_gradient);
    }
  return stages;
}

/// "41.0 ms", "870 µs"
std::string time_text(double milliseconds) {
  return milliseconds < 1 ? fmt::format("{:.0f} µs", 1000 * milliseconds)
                          : fmt::format("{:.1f} ms", milliseconds);
}

/// "gpipe 41.0 ms, zb_h1 35.2 ms": a step by each of the other schedules. The fastest is
/// recommended if each stage has a core.
std::string other_schedules(const PipelineOptions& pipeline, const std::vector<StageTimes>& stages,
                            double step, bool is_shared) {
  constexpr double noticeable = 0.95;
  const std::size_t micro_batches = micro_batches_of_a_replica(pipeline);
  std::string others;
  std::string_view fastest;
  double least = noticeable * step;
  for (const auto& [name, kind] : schedule_names) {
    if (kind == pipeline.schedule) continue;
    const double other = end_of(simulate(kind, micro_batches, stages));
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", name, time_text(other));
    if (other < least) {
      least = other;
      fastest = name;
    }
  }
  return fastest.empty() || is_shared
             ? others
             : fmt::format("{}\ntry parallel.schedule={}", others, fastest);
}

/// Of the whole run, from the milliseconds of a step.
void print_rate(const PipelineOptions& pipeline, double step) {
  const std::uint32_t steps = timeline_of(pipeline).steps;
  print_out("at best {:.0f} samples/s, and {} for the run's {}, without evaluation\n",
            1000 * static_cast<double>(pipeline.batch_size) / step,
            duration_text(std::chrono::duration<double, std::milli>(step * steps)),
            counted(steps, "step"));
}

/// Milliseconds of all stages together in a step.
double computation(const std::vector<StageTimes>& stages, std::size_t micro_batches) {
  double sum = 0;
  for (const StageTimes& stage : stages) sum += stage.forward + stage.backward();
  return sum * static_cast<double>(micro_batches);
}

}  // namespace

void print_schedule(const PlannedRun& run) {
  const PipelineOptions& pipeline = run.pipeline;
  const std::vector<StageTimes> stages = stage_times(pipeline);
  const std::size_t micro_batches = micro_batches_of_a_replica(pipeline);
  const std::string of_a_step = counted(static_cast<std::int64_t>(micro_batches), "micro-batch");
  const int units = run.gpu ? 1 : available_cores();
  const std::int64_t replicas = pipeline.replicas;
  const std::string sharing = fmt::format("{}{} share {}", counted(std::ssize(stages), "stage"),
                                          replicas == 1 ? "" : " × " + counted(replicas, "replica"),
                                          run.gpu ? "one GPU" : counted(units, "core"));
  const bool is_shared = run.processes() == 1 && std::ssize(stages) * replicas > units;
  const double shared_time = computation(stages, pipeline.micro_batches) / units;
  if (run.gpu && is_shared) {
    print_out("\nschedule {}: {}, so a step of {} takes at least {} (measured blocks)\n",
              name_of(pipeline.schedule), sharing, counted(pipeline.micro_batches, "micro-batch"),
              time_text(shared_time));
    print_rate(pipeline, shared_time);
    return;
  }
  const auto actions = simulate(pipeline.schedule, micro_batches, stages);
  const double end = end_of(actions);
  print_out(
      "\nschedule {}: a step of {} takes {}; stages wait {:.1f} % of it\n"
      "(simulated from measured blocks; {}messages take no time)\n",
      name_of(pipeline.schedule), of_a_step, time_text(end),
      100.0 * idle_share(actions, stages.size()), run.gpu ? "" : "a core for each stage, ");
  if (is_shared)
    print_out("on this machine {}: a step takes at least {}\n", sharing, time_text(shared_time));
  print_rate(pipeline, is_shared ? std::max(end, shared_time) : end);
  const int width = ProgressStyle::of(stdout).width;
  print_out("{}", draw(actions, static_cast<std::size_t>(width)));
  const bool deferred = std::ranges::any_of(actions, [](const TimedAction& action) {
    return action.scheduled.action == StageAction::weight_gradient;
  });
  print_out("F0---: forward pass of micro-batch 0; B0===: backward pass; dots: waiting\n{}",
            deferred ? "W0~~~: deferred weight gradients of micro-batch 0\n" : "");
  double shortest = end;
  for (const TimedAction& action : actions)
    shortest = std::min(shortest, action.end - action.begin);
  constexpr double legible = 3, margin = 9;  // columns of an action, and of a line's beginning
  constexpr double widest = 300;             // columns that a terminal may have
  if (const double needed = margin + legible * end / shortest; shortest > 0 && needed > width)
    print_out("{} columns truncate or omit short actions{}\n", width,
              needed < widest ? fmt::format("; {:.0f} columns show all", std::ceil(needed)) : "");
  if (stages.size() > 1)
    print_out("other schedules: {}\n", other_schedules(pipeline, stages, end, is_shared));
}

}  // namespace troupe

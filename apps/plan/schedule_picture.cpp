// The schedule of one step that `troupe plan` draws.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "actors/schedule.h"
#include "apps/output/progress.h"
#include "apps/plan/planned_run.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// The measured times of each stage, in milliseconds.
std::vector<StageTimes> stage_times(const PipelineOptions& pipeline) {
  std::vector<StageTimes> stages(pipeline.partition.size());
  for (std::size_t stage = 0, block = 0; stage < pipeline.partition.size(); ++stage)
    for (std::size_t i = 0; i < pipeline.partition[stage]; ++i, ++block) {
      const BlockProfile& profile = pipeline.profile[block];
      stages[stage].forward += milliseconds(profile.forward);
      stages[stage].input_gradient += milliseconds(profile.input_gradient);
      stages[stage].weight_gradient += milliseconds(profile.backward - profile.input_gradient);
    }
  return stages;
}

/// "gpipe 41.0 ms, zb_h1 35.2 ms": a step by each of the other schedules.
std::string other_schedules(const PipelineOptions& pipeline,
                            const std::vector<StageTimes>& stages) {
  const std::size_t micro_batches = micro_batches_of_a_replica(pipeline);
  std::string others;
  for (const auto& [name, kind] : schedule_names)
    if (kind != pipeline.schedule)
      others += fmt::format("{}{} {:.1f} ms", others.empty() ? "" : ", ", name,
                            end_of(simulate(kind, micro_batches, stages)));
  return others;
}

}  // namespace

void print_schedule(const PlannedRun& run) {
  const PipelineOptions& pipeline = run.pipeline;
  const std::vector<StageTimes> stages = stage_times(pipeline);
  const std::size_t micro_batches = micro_batches_of_a_replica(pipeline);
  const auto steps = simulate(pipeline.schedule, micro_batches, stages);
  const double end = end_of(steps);
  print_out(
      "\nschedule {}: a step of {} takes {:.1f} ms; stages wait {:.1f} % of it\n"
      "(simulated from measured blocks; one core a stage, messages take no time)\n",
      name_of(pipeline.schedule), counted(static_cast<std::int64_t>(micro_batches), "micro-batch"),
      end, 100.0 * idle_share(steps, stages.size()));
  const int width = ProgressStyle::of(stdout).width;
  print_out("{}", draw(steps, static_cast<std::size_t>(width)));
  const bool deferred = std::ranges::any_of(steps, [](const TimedStep& step) {
    return step.step.action == StageAction::weight_gradient;
  });
  print_out("F0: forward pass of micro-batch 0; B0: backward pass; dots: waiting\n{}",
            deferred ? "W0: deferred weight gradients of micro-batch 0\n" : "");
  double shortest = end;
  for (const TimedStep& step : steps) shortest = std::min(shortest, step.end - step.begin);
  constexpr double legible = 3, margin = 9;  // columns of an action, and of a line's beginning
  if (const double needed = margin + legible * end / shortest; shortest > 0 && needed > width)
    print_out("{} columns truncate or omit short actions; {:.0f} columns show all\n", width,
              std::ceil(needed));
  if (stages.size() > 1) print_out("other schedules: {}\n", other_schedules(pipeline, stages));
}

}  // namespace troupe

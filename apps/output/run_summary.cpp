#include "apps/output/run_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "actors/schedule_simulation.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::chrono::seconds shortest{1};  // below, the start and the end count too much

struct StageShare {
  std::string name;
  double compute = 0, no_input = 0;
};

double share_of(std::chrono::nanoseconds part, const TimeSplit& time) {
  const auto total = static_cast<double>(time.total().count());
  return total > 0 ? static_cast<double>(part.count()) / total : 0.0;
}

/// "stage/1" or, with replicas, "stage/1/0".
std::optional<std::size_t> stage_of(std::string_view name) {
  constexpr std::string_view prefix = "stage/";
  std::size_t stage = 0;
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto [end, error] =
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), stage);
  return error == std::errc{} ? std::optional(stage) : std::nullopt;
}

/// By stage, each the mean of its replicas.
std::vector<StageShare> stages_of(const RunReport& report) {
  std::vector<StageShare> stages;
  std::vector<int> replicas;
  for (const ActorReport& actor : report.actors) {
    const auto stage = stage_of(actor.name);
    if (!stage) continue;
    stages.resize(std::max(stages.size(), *stage + 1));
    replicas.resize(stages.size());
    stages[*stage].compute += share_of(actor.time.compute, actor.time);
    stages[*stage].no_input += share_of(actor.time.no_input, actor.time);
    ++replicas[*stage];
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i].name = fmt::format("stage/{}", i);
    stages[i].compute /= std::max(replicas[i], 1);
    stages[i].no_input /= std::max(replicas[i], 1);
  }
  return stages;
}

/// The part of the time in which the actor threads computed.
double busy_threads(const RunReport& report, const RunShape& shape) {
  double busy = 0;
  for (const ActorReport& actor : report.actors) busy += share_of(actor.time.compute, actor.time);
  return busy / (shape.actor_threads * shape.processes);
}

bool all_threads_busy(const RunReport& report, const RunShape& shape) {
  return busy_threads(report, shape) > 0.9;
}

bool loader_is_slow(const RunReport& report, const std::vector<StageShare>& stages) {
  constexpr double much = 0.2, little = 0.2;
  return stages.front().no_input > much &&
         std::ranges::any_of(report.actors, [&](const ActorReport& actor) {
           return actor.name.starts_with("loader") &&
                  share_of(actor.time.no_credit, actor.time) < little;
         });
}

/// The pipeline bubble of equal stages, as a part of a step: the time in which the pipeline fills
/// and drains, (p - 1) / (m + p - 1) for 1F1B and GPipe alike (Huang et al., "GPipe", 2019), less
/// where a backward is split. Its two parts take as long as a forward.
double bubble_of(ScheduleKind schedule, std::size_t stages, std::int64_t micro_batches) {
  const std::vector<StageTimes> equal(stages, {1, 1, 1});
  return idle_share(simulate(schedule, static_cast<std::size_t>(micro_batches), equal), stages);
}

double mean_compute(const std::vector<StageShare>& stages) {
  double sum = 0;
  for (const StageShare& stage : stages) sum += stage.compute;
  return sum / static_cast<double>(stages.size());
}

/// Stages of a process, at most.
int stages_here(const RunShape& shape, std::size_t stages) {
  const auto all = static_cast<int>(stages) * static_cast<int>(shape.replicas);
  return (all + shape.processes - 1) / shape.processes;
}

/// No stage slows the others where they take turns on too few threads.
bool lacks_threads(const RunReport& report, const RunShape& shape, std::size_t stages) {
  return all_threads_busy(report, shape) && stages_here(shape, stages) > shape.actor_threads;
}

std::string more_threads(const RunShape& shape, std::size_t stages) {
  const int wanted = stages_here(shape, stages);
  if (wanted <= shape.actor_threads) return {};
  if (shape.idle_cores < 1)
    return fmt::format("{} share {}: more cores would make them faster", counted(wanted, "stage"),
                       counted(shape.actor_threads, "actor thread"));
  return fmt::format(
      "all actor threads were busy and cores are idle: try parallel.actor_threads={}",
      std::min(wanted, shape.actor_threads + shape.idle_cores));
}

std::string try_what(const RunReport& report, const RunShape& shape,
                     const std::vector<StageShare>& stages, const StageShare& most) {
  constexpr double uneven = 1.2, long_wait = 0.1;
  if (!shape.on_gpu && all_threads_busy(report, shape)) return more_threads(shape, stages.size());
  if (loader_is_slow(report, stages))
    return fmt::format("{} waited for data: try data.workers={}", stages.front().name,
                       shape.workers + 1);
  if (stages.size() < 2 || shape.on_gpu) return {};
  if (shape.partition_by_hand && most.compute > uneven * mean_compute(stages))
    return fmt::format(
        "{} slows the other stages: try a parallel.partition other than [{}], or auto", most.name,
        fmt::join(shape.partition, ", "));
  // The bubble is known for stages that run at the same time.
  if (stages_here(shape, stages.size()) > shape.actor_threads) return {};
  const std::int64_t doubled = 2 * shape.micro_batches;
  const double idle = bubble_of(shape.schedule, stages.size(), shape.micro_batches);
  const std::int64_t samples = shape.batch_size / doubled;  // of a micro-batch
  // Batch norm learns little from the statistics of very few samples.
  constexpr std::int64_t fewest_for_batch_norm = 8;
  const bool fits = samples >= (shape.batch_norms ? fewest_for_batch_norm : 1);
  if (idle > long_wait && 1 - most.compute > idle / 2 && fits)
    return fmt::format(
        "the pipeline bubble is {:.0f} % of a step; train.micro_batches={} makes it {:.0f} %{}",
        100 * idle, doubled * shape.replicas,
        100 * bubble_of(shape.schedule, stages.size(), doubled),
        shape.batch_norms
            ? fmt::format("\n(batch norm then averages over {})", counted(samples, "sample"))
            : "");
  return {};
}

}  // namespace

std::string run_summary(const RunReport& report, const RunShape& shape) {
  const std::vector<StageShare> stages = stages_of(report);
  if (stages.empty() || report.wall < shortest) return {};
  constexpr double even = 1.1;
  const StageShare& most = *std::ranges::max_element(stages, {}, &StageShare::compute);
  const double mean = mean_compute(stages);
  std::string text = fmt::format("{} computed {:.0f} % of the time",
                                 stages.size() == 1 ? most.name : "stages", 100 * mean);
  if (shape.on_gpu && (stages.size() > 1 || shape.replicas > 1))
    text += fmt::format(" on average; {} share the GPU", stages.size() > 1 ? "they" : "replicas");
  else if (stages.size() > 1 && most.compute > even * mean &&
           !lacks_threads(report, shape, stages.size()))
    text += fmt::format("; the bottleneck is {} with {:.0f} %", most.name, 100 * most.compute);
  std::string advice = try_what(report, shape, stages, most);
  if (advice.empty() && shape.unused_cores > 0)
    advice = fmt::format("idle in each process: {}; try parallel.intra_op_threads=auto",
                         counted(shape.unused_cores, "core"));
  return advice.empty() ? text : text + "\n" + advice;
}

std::string shared_cores_sentence(const RunReport& report, std::uint32_t process,
                                  std::chrono::duration<double> processor_time, int cores) {
  constexpr double much_less = 0.7;
  std::chrono::duration<double> computed{};
  for (const ActorReport& actor : report.actors)
    if (actor.process == process && stage_of(actor.name)) computed += actor.time.compute;
  // More threads than cores wait for each other.
  computed =
      std::min<std::chrono::duration<double>>(computed, report.wall * static_cast<double>(cores));
  if (report.wall < shortest || processor_time >= much_less * computed) return {};
  return "other programs used the cores: the time of computing includes waiting for a core";
}

}  // namespace troupe

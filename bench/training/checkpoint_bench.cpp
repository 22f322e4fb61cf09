// Checkpoints of 100 million parameters while a graph trains them: how long the stage stands still
// at a commit that asks for a snapshot, beyond one that does not; how long until the checkpoint is
// complete; and what a step takes meanwhile. A line of readings in milliseconds for each.
//
//   checkpoint_bench FOLDER [checkpoints] [actor threads]

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "actors/checkpoint_files.h"
#include "actors/data/datasets.h"
#include "actors/pipeline.h"
#include "ops/models/models.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/flow/run.h"

namespace {

using namespace troupe;
constexpr std::uint32_t every = 8;  // steps

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double median(std::vector<double> readings) {
  std::ranges::sort(readings);
  return readings.at(readings.size() / 2);
}

PipelineOptions big_model(std::uint32_t steps) {
  return {.model = Mlp{std::vector<std::int64_t>(11, 3110)},  // 99.98 million parameters
          .data = {.dataset = open_dataset(
                       Synthetic{.shape = {1, 32, 32}, .count = 4 * std::int64_t{steps}})},
          .batch_size = 4,
          .evaluates = false,
          .rate = {.lr = 0.001}};
}

/// By step s: from the end of its update to the begin of the next step's forward.
std::map<std::uint32_t, double> pauses(const RunReport& report) {
  std::size_t stage = 0;
  while (report.actors.at(stage).name != "stage/0") ++stage;
  std::map<std::uint32_t, std::chrono::nanoseconds> ends, begins;
  for (const TraceEvent& event : report.trace) {
    if (event.actor != stage) continue;
    if (event.name == std::string_view("U")) ends[event.key.step] = event.end;
    if (event.name == std::string_view("F")) begins[event.key.step] = event.begin;
  }
  std::map<std::uint32_t, double> result;
  for (const auto& [step, end] : ends)
    if (const auto next = begins.find(step + 1); next != begins.end())
      result[step] = milliseconds(next->second - end);
  return result;
}

void report(const char* what, const std::vector<double>& readings) {
  fmt::print("{}: {:.3f}\n", what, fmt::join(readings, " "));
}

void measure(const std::filesystem::path& folder, std::uint32_t count, int threads) {
  const std::uint32_t steps = every * (count + 1);
  std::vector<double> complete, plain_steps, saving_steps;
  PipelineOptions options = big_model(steps);
  options.writer = CheckpointWriterOptions{};
  options.writer->write = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots,
                              const std::vector<ShardInfo>& elsewhere) {
    const auto begin = std::chrono::steady_clock::now();
    Manifest manifest;
    manifest.step = step;
    const auto made = write_snapshots(folder, std::move(manifest), snapshots, {0}, elsewhere);
    if (!made) throw made.error();
    complete.push_back(milliseconds(std::chrono::steady_clock::now() - begin));
    return prune_checkpoints(folder, {1},
                             step);  // the new one is whole by now: not a part of its time
  };
  options.writer->on_checkpoint = [](const CheckpointSeen& seen) {
    if (!seen.status) throw seen.status.error();
  };
  options.on_step = [&](const StepSeen& seen) {
    if (seen.step <= every) return;  // memory is touched for the first time
    const bool after_snapshot = seen.step % every == 1;
    (after_snapshot ? saving_steps : plain_steps).push_back(milliseconds(seen.duration));
  };
  const RunReport done = run(
      build_pipeline(options),
      {.threads = threads, .steps = {.count = steps, .snapshot_every = {every}}, .trace = true});

  std::vector<double> plain_pauses, snapshot_pauses;
  for (const auto& [step, pause] : pauses(done))
    ((step + 1) % every == 0 ? snapshot_pauses : plain_pauses).push_back(pause);
  const double usual = median(plain_pauses);
  for (double& pause : snapshot_pauses) pause -= usual;
  report("stall ms", snapshot_pauses);
  report("complete ms", complete);
  report("step ms", plain_steps);
  report("step while saving ms", saving_steps);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    fmt::print(stderr, "usage: checkpoint_bench FOLDER [checkpoints] [actor threads]\n");
    return 2;
  }
  measure(argv[1], argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 5,
          argc > 3 ? std::atoi(argv[3]) : 1);
} catch (const troupe::Error& error) {
  fmt::print(stderr, "checkpoint_bench: {}\n", error.what());
  return 1;
}

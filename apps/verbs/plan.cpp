// troupe plan: what a run would be made of, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/load_options.h"
#include "apps/output/progress.h"
#include "apps/training.h"
#include "apps/verbs.h"

namespace troupe {
namespace {

struct PlanArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
};

std::string bytes_text(std::size_t bytes) {
  if (bytes >= 1u << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= 1u << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

/// Of a terminal: the bytes of UTF-8 that begin a character.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char byte) { return (byte & 0xc0) != 0x80; }));
}

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

void print_stages(const PipelineOptions& pipeline) {
  fmt::print("{:<8}{:<22}{:>12}{:>12}{:>12}{:>12}\n", "stage", "blocks", "parameters", "saved",
             "forward", "backward");
  for (std::size_t stage = 0, block = 0; stage < pipeline.cut.size(); ++stage)
    for (std::size_t i = 0; i < pipeline.cut[stage]; ++i, ++block) {
      const BlockProfile& profile = pipeline.profile[block];
      fmt::print("{:<8}{:<22}{:>12}{:>12}{:>9.3f} ms{:>9.3f} ms\n",
                 i == 0 ? std::to_string(stage) : "", profile.name, profile.parameters,
                 bytes_text(profile.saved_bytes), milliseconds(profile.forward),
                 milliseconds(profile.backward));
    }
}

void print_edges(const Graph& graph) {
  std::size_t widest = 46;
  for (std::size_t i = 0; i < graph.edges().size(); ++i)
    widest = std::max(widest, columns_of(graph.edge_name(i)));
  fmt::print("\n{:<{}}{:>5}{:>11}{:>11}\n", "edge", widest, "slots", "a slot", "together");
  for (std::size_t i = 0; i < graph.edges().size(); ++i) {
    const EdgeOptions& edge = graph.edges()[i].options;
    const std::string name = graph.edge_name(i);
    fmt::print("{}{:{}}{:>5}{:>11}{:>11}\n", name, "", widest - columns_of(name), edge.slots,
               bytes_text(edge.slot_bytes), bytes_text(edge.slots * edge.slot_bytes));
  }
}

void print_memory(const PipelineOptions& pipeline, const Graph& graph, std::size_t dataset_bytes) {
  const MemoryBound bound = memory_bound(pipeline, graph, dataset_bytes);
  fmt::print("\nmemory\n");
  for (const auto& part : bound.parts)
    fmt::print("  {:<28}{:>14}\n", part.what, bytes_text(part.bytes));
  fmt::print("  {:<28}{:>14}\n", "bound", bytes_text(bound.total()));
}

void print_schedule(const Options& options, const PipelineOptions& pipeline) {
  std::vector<double> forward(pipeline.cut.size(), 0.0), backward(pipeline.cut.size(), 0.0);
  for (std::size_t stage = 0, block = 0; stage < pipeline.cut.size(); ++stage)
    for (std::size_t i = 0; i < pipeline.cut[stage]; ++i, ++block) {
      forward[stage] += milliseconds(pipeline.profile[block].forward);
      backward[stage] += milliseconds(pipeline.profile[block].backward);
    }
  const std::size_t micro_batches =
      (pipeline.micro_batches + pipeline.replicas - 1) / pipeline.replicas;
  const auto steps = simulate(pipeline.schedule, micro_batches, forward, backward);
  double end = 0, busy = 0;
  for (const TimedStep& step : steps) {
    end = std::max(end, step.end);
    busy += step.end - step.begin;
  }
  const double bubble = 100.0 * (1.0 - busy / (end * static_cast<double>(pipeline.cut.size())));
  fmt::print(
      "\nschedule {}: {} micro-batches take {:.1f} ms a step; stages wait {:.1f} % of it\n"
      "(measured block by block; each stage on a core of its own)\n",
      options.parallel.schedule, micro_batches, end, bubble);
  const int width = ProgressStyle::of(stdout).width;
  fmt::print("{}", draw(steps, static_cast<std::size_t>(width)));
  fmt::print("F0 is micro-batch 0 forward, B0 backward; a dot is a stage that waits\n");
}

int plan(const PlanArguments& arguments) {
  const Options options = load_options(arguments.options, arguments.overrides);
  PipelineOptions pipeline = pipeline_options(options, {});
  if (pipeline.profile.empty()) measure(pipeline, 3);
  pipeline.writer = CheckpointWriterOptions{};
  const Graph graph = build_pipeline(pipeline);
  const Dataset& data = pipeline.data.dataset;
  const std::size_t dataset_bytes = static_cast<std::size_t>(
      (data.count(Split::train) + data.count(Split::test)) * data.sample_shape().element_count());
  fmt::print("{}\n\n", run_heading(options, pipeline));
  print_stages(pipeline);
  print_edges(graph);
  print_memory(pipeline, graph, dataset_bytes);
  print_schedule(options, pipeline);
  return exit_done;
}

}  // namespace

void add_plan_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb = app.add_subcommand("plan", "Show stages, edges, memory and schedule of a run");
  verb->add_option("FILE", arguments->options, "options file; see `troupe options`")->required();
  verb->add_option("-r,--override", arguments->overrides, "KEY=VALUE in place of the file's")
      ->allow_extra_args(false);
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const std::string&) { return plan(*arguments); };
  });
}

}  // namespace troupe

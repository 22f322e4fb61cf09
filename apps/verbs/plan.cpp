// troupe plan: what a run would be made of, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/memory_bound.h"
#include "apps/command.h"
#include "apps/load_options.h"
#include "apps/output/progress.h"
#include "apps/training.h"
#include "apps/verbs.h"
#include "apps/world_run.h"

namespace troupe {
namespace {

// Beyond these a number is a slip of the keyboard; their product is an int.
constexpr int most_hosts = 10'000, most_processes = 10'000;

struct PlanArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
  int hosts = 1, processes_per_host = 1;
};

// At most nine characters.
std::string bytes_text(std::size_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (count < 1000) return fmt::format("{} B", bytes);
  if (count < 1000 * 0x1p10) return fmt::format("{:.1f} KiB", count / 0x1p10);
  if (count < 1000 * 0x1p20) return fmt::format("{:.1f} MiB", count / 0x1p20);
  return fmt::format("{:.1f} GiB", count / 0x1p30);
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

/// A pipeline as it would run: its graph, and what its processes can use.
struct Plan {
  const Graph& graph;
  std::vector<MemoryBound> bounds;  ///< by process
  int processes_per_host = 1;

  std::uint32_t processes() const { return static_cast<std::uint32_t>(bounds.size()); }
  /// As launchers number them: host by host.
  int host_of(std::uint32_t process) const {
    return static_cast<int>(process) / processes_per_host;
  }
};

// Names that do not fit the line go on below the first one.
void print_names(const std::vector<std::string>& names, std::size_t indent, std::size_t width) {
  std::size_t column = indent;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && column + 1 + names[i].size() > width) {
      fmt::print("\n{:{}}", "", indent);
      column = indent;
    } else if (i > 0) {
      fmt::print(" ");
      ++column;
    }
    fmt::print("{}", names[i]);
    column += names[i].size();
  }
  fmt::print("\n");
}

void print_processes(const Plan& plan) {
  fmt::print("\n{:<8}{:>5}{:>15}  {}\n", "process", "host", "memory bound", "actors");
  for (std::uint32_t process = 0; process < plan.processes(); ++process) {
    std::vector<std::string> names;
    for (const Graph::Node& node : plan.graph.nodes())
      if (node.process == process) names.push_back(node.name);
    fmt::print("{:<8}{:>5}{:>15}  ", process, plan.host_of(process),
               bytes_text(plan.bounds[process].total()));
    print_names(names, 30, 80);
  }
}

/// How far an edge's messages go.
enum class Reach : std::uint8_t { process, host, beyond };

Reach reach_of(const Plan& plan, const Graph::Edge& edge) {
  const std::uint32_t from = plan.graph.nodes()[edge.from].process;
  const std::uint32_t to = plan.graph.nodes()[edge.to].process;
  if (from == to) return Reach::process;
  return plan.host_of(from) == plan.host_of(to) ? Reach::host : Reach::beyond;
}

void print_edges(const Plan& plan) {
  constexpr const char* marks[] = {"", " *", " **"};
  const Graph& graph = plan.graph;
  std::size_t widest = 46, within_hosts = 0, between_hosts = 0;
  for (std::size_t i = 0; i < graph.edges().size(); ++i)
    widest = std::max(widest, columns_of(graph.edge_name(i)));
  fmt::print("\n{:<{}}{:>5}{:>10}{:>10}\n", "edge", widest, "slots", "a slot", "a step");
  for (std::size_t i = 0; i < graph.edges().size(); ++i) {
    const EdgeOptions& edge = graph.edges()[i].options;
    const std::string name = graph.edge_name(i);
    const Reach reach = reach_of(plan, graph.edges()[i]);
    fmt::print("{}{:{}}{:>5}{:>10}{:>10}{}\n", name, "", widest - columns_of(name), edge.slots,
               bytes_text(edge.slot_bytes), bytes_text(edge.step_bytes),
               marks[static_cast<std::size_t>(reach)]);
    if (reach == Reach::host) within_hosts += edge.step_bytes;
    if (reach == Reach::beyond) between_hosts += edge.step_bytes;
  }
  if (plan.processes() == 1) return;
  fmt::print("* to another process of the host: {} a step\n", bytes_text(within_hosts));
  if (plan.host_of(plan.processes() - 1) > 0)
    fmt::print("** to another host: {} a step\n", bytes_text(between_hosts));
}

void print_memory(const Plan& plan) {
  const auto largest = std::ranges::max_element(plan.bounds, {}, &MemoryBound::total);
  fmt::print("\nmemory{}\n", plan.processes() == 1
                                 ? ""
                                 : fmt::format(" of process {}, which can use most",
                                               largest - plan.bounds.begin()));
  for (const auto& part : largest->parts)
    fmt::print("  {:<28}{:>14}\n", part.what, bytes_text(part.bytes));
  fmt::print("  {:<28}{:>14}\n", "bound", bytes_text(largest->total()));
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
  const World world{.size = arguments.hosts * arguments.processes_per_host,
                    .launcher = "troupe launch"};
  check_fits(world, options);
  const auto processes = static_cast<std::uint32_t>(world.size);
  PipelineOptions pipeline = pipeline_options(options, {}, {.processes = processes});
  if (pipeline.profile.empty()) measure(pipeline, 3);
  pipeline.writer = CheckpointWriterOptions{};
  const Graph graph = build_pipeline(pipeline);
  const Dataset& data = pipeline.data.dataset;
  const std::size_t dataset_bytes = static_cast<std::size_t>(
      (data.count(Split::train) + data.count(Split::test)) * data.sample_shape().element_count());
  Plan plan{.graph = graph, .bounds = {}, .processes_per_host = arguments.processes_per_host};
  for (std::uint32_t process = 0; process < processes; ++process)
    plan.bounds.push_back(memory_bound(pipeline, graph, dataset_bytes, process));
  fmt::print("{}\n\n", run_heading(options, pipeline));
  print_stages(pipeline);
  if (processes > 1) print_processes(plan);
  print_edges(plan);
  print_memory(plan);
  print_schedule(options, pipeline);
  return exit_done;
}

}  // namespace

void add_plan_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb =
      app.add_subcommand("plan", "Show processes, edges, memory and schedule of a run");
  verb->add_option("FILE", arguments->options, "options file; see `troupe options`")->required();
  verb->add_option("-r,--override", arguments->overrides, "KEY=VALUE in place of the file's")
      ->allow_extra_args(false);
  verb->add_option("--nnodes", arguments->hosts, "hosts that the run would have")
      ->check(CLI::Range(1, most_hosts));
  verb->add_option("--nproc-per-node,--nproc_per_node,--nproc", arguments->processes_per_host,
                   "processes on each of them")
      ->check(CLI::Range(1, most_processes));
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const std::string&) { return plan(*arguments); };
  });
}

}  // namespace troupe

// troupe plan: what a run would be made of, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/memory_bound.h"
#include "apps/command.h"
#include "apps/options/load_options.h"
#include "apps/output/progress.h"
#include "apps/train/training.h"
#include "apps/train/warnings.h"
#include "apps/verbs.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/remote/bulk.h"

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
  print_out("{:<8}{:<22}{:>12}{:>12}{:>12}{:>12}\n", "stage", "blocks", "parameters", "saved",
            "forward", "backward");
  for (std::size_t stage = 0, block = 0; stage < pipeline.partition.size(); ++stage)
    for (std::size_t i = 0; i < pipeline.partition[stage]; ++i, ++block) {
      const BlockProfile& profile = pipeline.profile[block];
      print_out("{:<8}{:<22}{:>12}{:>12}{:>9.3f} ms{:>9.3f} ms\n",
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
  std::uint32_t replicas = 1;
  bool by_gloo = false;  ///< also within a host

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
      print_out("\n{:{}}", "", indent);
      column = indent;
    } else if (i > 0) {
      print_out(" ");
      ++column;
    }
    print_out("{}", names[i]);
    column += names[i].size();
  }
  print_out("\n");
}

void print_processes(const Plan& plan) {
  print_out("\n{:<8}{:>5}{:>15}  {}\n", "process", "host", "memory bound", "actors");
  for (std::uint32_t process = 0; process < plan.processes(); ++process) {
    std::vector<std::string> names;
    for (const Graph::ActorSpec& node : plan.graph.actors())
      if (node.process == process) names.push_back(node.name);
    print_out("{:<8}{:>5}{:>15}  ", process, plan.host_of(process),
              bytes_text(plan.bounds[process].total()));
    print_names(names, 30, 80);
  }
}

/// How far an edge's messages go.
enum class Reach : std::uint8_t { process, host, beyond };

Reach reach_of(const Plan& plan, const Graph::Edge& edge) {
  const std::uint32_t from = plan.graph.actors()[edge.from].process;
  const std::uint32_t to = plan.graph.actors()[edge.to].process;
  if (from == to) return Reach::process;
  return plan.host_of(from) == plan.host_of(to) ? Reach::host : Reach::beyond;
}

/// A row of the table: an edge, or as many as are alike but for their replicas.
struct EdgeRow {
  std::string from, from_port, to, to_port;  ///< actors without the number of their replica
  int from_replica = -1, to_replica = -1;    ///< -1: has none; several: of more than one
  EdgeOptions edge;
  Reach reach = Reach::process;
  int count = 1;

  bool is_like(const EdgeRow& other) const {
    return from == other.from && from_port == other.from_port && to == other.to &&
           to_port == other.to_port && reach == other.reach && edge.slots == other.edge.slots &&
           edge.slot_bytes == other.edge.slot_bytes && edge.step_bytes == other.edge.step_bytes;
  }
  void add(const EdgeRow& other) {
    if (from_replica != other.from_replica) from_replica = several;
    if (to_replica != other.to_replica) to_replica = several;
    ++count;
  }
  std::string name() const {
    const auto number = [](int replica) {
      if (replica < 0) return std::string();
      return replica == several ? "/#" : fmt::format("/{}", replica);
    };
    return fmt::format("{}{}{} → {}{}{}", from, number(from_replica), from_port, to,
                       number(to_replica), to_port);
  }
  static constexpr int several = 1 << 30;
};

/// Takes the number of its replica from an actor's name; -1 where it has none: a writer's is that
/// of its stage.
int take_number(std::string& name) {
  if (name.starts_with("writer")) return -1;
  const auto slash = name.rfind('/');
  if (slash == name.npos || name.find_first_not_of("0123456789", slash + 1) != name.npos) return -1;
  const int number = std::stoi(name.substr(slash + 1));
  name.resize(slash);
  return number;
}

EdgeRow row_of(const Plan& plan, std::size_t index) {
  const Graph::Edge& edge = plan.graph.edges()[index];
  const std::string whole = plan.graph.edge_name(index);
  EdgeRow row{.from = plan.graph.actors()[edge.from].name,
              .from_port = {},
              .to = plan.graph.actors()[edge.to].name,
              .to_port = {},
              .edge = edge.options,
              .reach = reach_of(plan, edge)};
  constexpr std::string_view arrow = " → ";
  const auto middle = whole.find(arrow);
  row.from_port = whole.substr(row.from.size(), middle - row.from.size());
  row.to_port = whole.substr(middle + arrow.size() + row.to.size());
  if (plan.replicas > 1) {
    row.from_replica = take_number(row.from);
    row.to_replica = take_number(row.to);
  }
  return row;
}

std::vector<EdgeRow> edge_rows(const Plan& plan) {
  std::vector<EdgeRow> rows;
  for (std::size_t i = 0; i < plan.graph.edges().size(); ++i) {
    const EdgeRow row = row_of(plan, i);
    const auto like = std::ranges::find_if(rows, [&](const auto& r) { return r.is_like(row); });
    if (like == rows.end())
      rows.push_back(row);
    else
      like->add(row);
  }
  return rows;
}

void print_edges(const Plan& plan) {
  constexpr const char* marks[] = {"", " *", " **"};
  std::size_t widest = 46, within_hosts = 0, between_hosts = 0;
  const std::vector<EdgeRow> rows = edge_rows(plan);
  for (const EdgeRow& row : rows) widest = std::max(widest, columns_of(row.name()));
  const bool folded = std::ranges::any_of(rows, [](const EdgeRow& row) { return row.count > 1; });
  print_out("\n{}{:{}}{:>5}{:>10}{:>10}\n",
            folded ? "edge (#: each replica; 2×4: two of 4 slots)" : "edge", "",
            widest - (folded ? 43 : 4), "slots", "a slot", "a step");
  for (const EdgeRow& row : rows) {
    const std::string name = row.name();
    const std::string slots = row.count == 1 ? std::to_string(row.edge.slots)
                                             : fmt::format("{}×{}", row.count, row.edge.slots);
    constexpr std::size_t slots_width = 5;
    const std::size_t used = columns_of(name) + columns_of(slots);
    const std::size_t gap = widest + slots_width > used ? widest + slots_width - used : 1;
    print_out("{}{:{}}{}{:>10}{:>10}{}\n", name, "", gap, slots, bytes_text(row.edge.slot_bytes),
              bytes_text(row.edge.step_bytes), marks[static_cast<std::size_t>(row.reach)]);
    const std::size_t bytes = row.edge.step_bytes * static_cast<std::size_t>(row.count);
    if (row.reach == Reach::host) within_hosts += bytes;
    if (row.reach == Reach::beyond) between_hosts += bytes;
  }
  if (std::ranges::any_of(rows, [](const EdgeRow& row) { return row.edge.step_bytes == 0; }))
    print_out("0 B a step: sent at checkpoints only\n");
  const auto used = [&](Reach reach) {
    return std::ranges::any_of(rows, [&](const EdgeRow& row) { return row.reach == reach; });
  };
  if (used(Reach::host))
    print_out("* to another process of the host, by {}: {} a step\n",
              plan.by_gloo ? "Gloo" : "shared memory", bytes_text(within_hosts));
  if (used(Reach::beyond))
    print_out("** to another host, by Gloo: {} a step\n", bytes_text(between_hosts));
}

void print_memory(const Plan& plan) {
  const auto largest = std::ranges::max_element(plan.bounds, {}, &MemoryBound::total);
  print_out("\nmemory{}\n",
            plan.processes() == 1
                ? ""
                : fmt::format(" of process {}, which can use most", largest - plan.bounds.begin()));
  for (const auto& part : largest->parts)
    print_out("  {:<28}{:>14}\n", part.what, bytes_text(part.bytes));
  print_out("  {:<28}{:>14}\n", "bound", bytes_text(largest->total()));
  print_out("of tensors and samples; program, libraries and threads take some 50 MiB more\n");
}

void print_schedule(const Options& options, const PipelineOptions& pipeline) {
  std::vector<StageTimes> stages(pipeline.partition.size());
  for (std::size_t stage = 0, block = 0; stage < pipeline.partition.size(); ++stage)
    for (std::size_t i = 0; i < pipeline.partition[stage]; ++i, ++block) {
      const BlockProfile& profile = pipeline.profile[block];
      stages[stage].forward += milliseconds(profile.forward);
      stages[stage].input_gradient += milliseconds(profile.input_gradient);
      stages[stage].weight_gradient += milliseconds(profile.backward - profile.input_gradient);
    }
  const std::size_t micro_batches = micro_batches_of_a_replica(pipeline);
  const auto steps = simulate(pipeline.schedule, micro_batches, stages);
  const double end = end_of(steps);
  const double bubble = 100.0 * idle_share(steps, pipeline.partition.size());
  print_out(
      "\nschedule {}: {} micro-batches take {:.1f} ms a step; stages wait {:.1f} % of it\n"
      "(measured block by block; each stage on a core of its own, messages not counted)\n",
      options.parallel.schedule, micro_batches, end, bubble);
  const int width = ProgressStyle::of(stdout).width;
  print_out("{}", draw(steps, static_cast<std::size_t>(width)));
  const bool apart = std::ranges::any_of(steps, [](const TimedStep& step) {
    return step.step.action == StageAction::weight_gradient;
  });
  print_out("F0 is micro-batch 0 forward, B0 backward; a dot is a stage that waits\n{}",
            apart ? "W0 is its weight gradient, where that is made later\n" : "");
  double shortest = end;
  for (const TimedStep& step : steps) shortest = std::min(shortest, step.end - step.begin);
  constexpr double legible = 3, margin = 9;  // columns of an action, and of a line's beginning
  if (const double needed = margin + legible * end / shortest; shortest > 0 && needed > width)
    print_out("in {} columns short actions are cut or left out; all show in {:.0f}\n", width,
              std::ceil(needed));
  if (pipeline.partition.size() == 1) return;
  std::string others;
  for (const auto& [name, kind] : schedule_names)
    if (kind != pipeline.schedule)
      others += fmt::format("{}{} {:.1f} ms", others.empty() ? "" : ", ", name,
                            end_of(simulate(kind, micro_batches, stages)));
  print_out("other schedules: {}\n", others);
}

void check_work(const Options& options, const PlanArguments& arguments) {
  const std::int64_t processes = std::int64_t{arguments.hosts} * arguments.processes_per_host;
  const WorkLimits limits = work_limits(options);
  if (processes <= limits.total_stages()) return;
  throw Error(ErrorCode::bad_options,
              fmt::format("{} processes are asked for, but {}", processes, work_words(limits)),
              fmt::format("plan for {}{}", limits.total_stages(), or_give(processes, limits)));
}

/// As the processes find out when they connect.
void check_transport(const Options& options, const PlanArguments& arguments) {
  if (options.parallel.transport == "shm" && arguments.hosts > 1)
    throw not_on_one_host("host 0", arguments.processes_per_host, "host 1");
}

int plan(const PlanArguments& arguments) {
  const Options options = load_options(arguments.options, arguments.overrides);
  const auto processes = static_cast<std::uint32_t>(arguments.hosts * arguments.processes_per_host);
  check_work(options, arguments);
  check_transport(options, arguments);
  PipelineOptions pipeline = pipeline_options(options, {}, {.processes = processes});
  if (pipeline.profile.empty()) measure(pipeline);
  pipeline.writer = CheckpointWriterOptions{};
  const Graph graph = build_pipeline(pipeline);
  const Dataset& data = pipeline.data.dataset;
  const auto dataset_bytes = static_cast<std::size_t>(
      (data.count(Split::train) + data.count(Split::test)) * data.sample_shape().element_count());
  Plan plan{.graph = graph,
            .bounds = {},
            .processes_per_host = arguments.processes_per_host,
            .replicas = pipeline.replicas,
            .by_gloo = options.parallel.transport == "gloo"};
  for (std::uint32_t process = 0; process < processes; ++process)
    plan.bounds.push_back(memory_bound(pipeline, graph, dataset_bytes, process));
  print_out("{}\n", run_heading(options, pipeline));
  for (const std::string& warning : shape_warnings(pipeline)) print_out("warning: {}\n", warning);
  print_out("\n");
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
      ->check(CLI::Range(1, most_hosts))
      ->option_text("NUMBER");
  verb->add_option("--nproc-per-node,--nproc_per_node,--nproc", arguments->processes_per_host,
                   "processes on each of them")
      ->check(CLI::Range(1, most_processes))
      ->option_text("NUMBER");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const std::string&) { return plan(*arguments); };
  });
}

}  // namespace troupe

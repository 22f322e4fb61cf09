// troupe plan: the stages, memory, schedule and edges of a run, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/block_costs.h"
#include "actors/pipeline_bytes.h"
#include "apps/command.h"
#include "apps/error_wording.h"
#include "apps/options/load_options.h"
#include "apps/plan/planned_run.h"
#include "apps/train/training.h"
#include "apps/train/warnings.h"
#include "apps/verbs.h"
#include "ops/described_device.h"
#include "ops/gpu_sizes.h"
#include "runtime/bytes_text.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/stop_signal.h"
#include "runtime/text.h"

namespace troupe {

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

namespace {

// Beyond these a number is a slip of the keyboard; their product is an int.
constexpr int most_hosts = 10'000, most_processes = 10'000;

struct PlanArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
  int hosts = 1, processes_per_host = 1;
  std::string device;  ///< --device
};

std::string time_text(std::chrono::nanoseconds time) {
  const double ms = milliseconds(time);
  return ms < 10'000 ? fmt::format("{:.3f} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
}

void print_stage_line(const std::string& stage, const BlockCosts& costs, bool has_times) {
  print_out("{:<8}{:<22}{:>12}{:>12}", stage, printable(costs.name), costs.parameters,
            bytes_text(costs.saved_bytes));
  if (has_times) print_out("{:>12}{:>12}", time_text(costs.forward), time_text(costs.backward));
  print_out("\n");
}

void print_stages(const PlannedRun& run) {
  const PipelineOptions& pipeline = run.pipeline;
  const bool has_times = !is_described(run);
  print_out("{:<8}{:<22}{:>12}{:>12}{}\n", "stage", "blocks", "parameters", "saved",
            has_times ? fmt::format("{:>12}{:>12}", "forward", "backward") : "");
  for (std::size_t stage = 0, block = 0; stage < pipeline.partition.size(); ++stage) {
    BlockCosts total{.name = "total"};
    for (std::size_t i = 0; i < pipeline.partition[stage]; ++i, ++block) {
      const BlockCosts& costs = pipeline.block_costs[block];
      print_stage_line(i == 0 ? std::to_string(stage) : "", costs, has_times);
      total.parameters += costs.parameters;
      total.saved_bytes += costs.saved_bytes;
      total.forward += costs.forward;
      total.backward += costs.backward;
    }
    if (pipeline.partition[stage] > 1) print_stage_line("", total, has_times);
  }
  print_out("{}: per micro-batch\n", has_times ? "saved, forward and backward" : "saved");
}

// Wraps names; further lines begin below the first name.
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

void print_processes(const PlannedRun& run) {
  print_out("\n{:<8}{:>5}{:>15}  {}\n", "process", "host", "memory bound", "actors");
  for (std::uint32_t process = 0; process < run.processes(); ++process) {
    std::vector<std::string> names;
    for (const Graph::ActorSpec& actor : run.graph.actors())
      if (actor.process == process) names.push_back(actor.name);
    print_out("{:<8}{:>5}{:>15}  ", process, run.host_of(process),
              bytes_text(run.bounds[process].total()));
    print_names(names, 30, 80);
  }
}

void check_work(const Options& options, const PlanArguments& arguments) {
  const std::int64_t processes = std::int64_t{arguments.hosts} * arguments.processes_per_host;
  const WorkLimits limits = work_limits(options);
  if (processes <= limits.total_stages()) return;
  throw Error(ErrorCode::bad_options,
              fmt::format("{}, but {}", counted(processes, "process"), work_words(limits)),
              fmt::format("plan for {}{}", limits.total_stages(), or_give(processes, limits)));
}

/// The options with the threads that each process of the run gets. The processes of a host share
/// its cores, of which each host is expected to have as many as this one.
Options with_threads_of_a_process(Options options, const PlanArguments& arguments,
                                  std::uint32_t processes) {
  const int cores = std::max(1, available_cores() / arguments.processes_per_host);
  options.run.threads = actor_threads(options, processes, cores);
  options.intra_op_threads = intra_op_threads(options, processes, cores);
  return options;
}

/// How the processes would connect. Throws if they could not.
TransportTopology topology_of(const Options& options, const PlanArguments& arguments) {
  std::vector<ProcessPlace> places;
  for (int host = 0; host < arguments.hosts; ++host) {
    const std::string name = fmt::format("host {}", host);
    places.insert(places.end(), static_cast<std::size_t>(arguments.processes_per_host),
                  {name, name});
  }
  return {std::move(places), options.transport.transport};
}

/// Ends the process as shells report Ctrl-C: unlike after a stopped run, there is nothing to
/// resume.
[[noreturn]] void stop_before_the_end() {
  print_error("stopped before the plan was complete\n");
  std::_Exit(128 + SIGINT);
}

/// The options with the device of --device: the CPU, which is measured, in place of a described
/// one.
Options with_device(Options options, const PlanArguments& arguments, bool described) {
  if (described) {
    options.device = DeviceChoice::cpu;
    options.pipeline.stream.products = DType::f32;
    options.pipeline.stream.conv_tf32 = options.pipeline.stream.matmul_tf32 = false;
  } else if (arguments.device == "cpu") {
    options.device = DeviceChoice::cpu;
  } else if (arguments.device == "cuda") {
    options.device = DeviceChoice::cuda;
  } else if (arguments.device == "auto") {
    options.device = DeviceChoice::automatic;
  }
  return options;
}

/// Throws as the run would if its device cannot be used, and names a device that need not be here.
void check_device(const Options& options) try {
  Stream stream = options.pipeline.stream;
  set_device(options, stream, 1);
} catch (const Error& error) {
  throw Error(error.code(), error.message(),
              error.remedy() + ", or plan for a described GPU: --device h100");
}

/// Throws where a tensor would leave a process that no transport carries.
void check_routes(const PlannedRun& run) {
  for (const Graph::Edge& edge : run.graph.edges()) {
    const auto from = static_cast<int>(run.graph.actors()[edge.from].process);
    const auto to = static_cast<int>(run.graph.actors()[edge.to].process);
    if (from != to) (void)run.topology.between(from, to, edge.options.device);
  }
}

/// What the pipeline needs on its device with a batch of another size: its blocks in proportion,
/// apart from the workspaces that products and attentions may take whatever their sizes.
std::size_t bytes_on_device(const PipelineOptions& pipeline, std::int64_t batch_size,
                            std::int64_t micro_batches, bool graphs) {
  PipelineOptions other = pipeline;
  other.batch_size = batch_size;
  other.micro_batches = static_cast<std::uint32_t>(micro_batches);
  other.cuda_graphs = other.cuda_graphs && graphs;
  const std::size_t fixed_scratch =
      product_workspace_limit + 2 * std::size_t{scores_of_a_part} * size_of(pipeline.dtype);
  for (BlockCosts& costs : other.block_costs)
    scale_samples(costs, static_cast<std::int64_t>(micro_batch_samples(other)),
                  static_cast<std::int64_t>(micro_batch_samples(pipeline)), fixed_scratch);
  return memory_bound(other, build_pipeline(other), other.data.dataset.bytes_in_memory())
      .total(MemoryBound::Place::device);
}

int plan(const PlanArguments& arguments, const Definitions& own) {
  const StopSignal on_signal(stop_before_the_end);
  const auto described = device_of_flag(arguments.device);
  const Options asked = load_options(arguments.options, arguments.overrides, own);
  const Options given = with_device(asked, arguments, described.has_value());
  const auto processes = static_cast<std::uint32_t>(arguments.hosts * arguments.processes_per_host);
  if (described && processes > 1)
    throw Error(ErrorCode::unsupported,
                fmt::format("{} processes, but a run on a GPU has one process", processes),
                "plan for one process, or --device cpu");
  if (!described && processes == 1) check_device(given);
  check_work(given, arguments);
  const Options options = with_threads_of_a_process(given, arguments, processes);
  TransportTopology topology = topology_of(options, arguments);
  PipelineOptions pipeline = pipeline_options(options, {}, {.processes = processes});
  // Times of this CPU say nothing of a described device.
  if (pipeline.block_costs.empty() && !described) measure(pipeline);
  auto gpu = described ? plan_for(*described, asked.pipeline.stream, pipeline) : gpu_of(pipeline);
  pipeline.writer = CheckpointWriterOptions{};
  const Graph graph = build_pipeline(pipeline);
  const Dataset& data = pipeline.data.dataset;
  PlannedRun planned{.pipeline = pipeline,
                     .graph = graph,
                     .bounds = {},
                     .processes_per_host = arguments.processes_per_host,
                     .topology = std::move(topology),
                     .gpu = std::move(gpu),
                     .gpu_bytes = std::bind_front(bytes_on_device, std::cref(pipeline))};
  check_routes(planned);
  for (std::uint32_t process = 0; process < processes; ++process)
    planned.bounds.push_back(memory_bound(pipeline, graph, data.bytes_in_memory(), process));
  print_out("{}\n", run_heading(options, pipeline));
  if (const int idle = idle_cores(given, processes); processes == 1 && idle > 0)
    print_out("idle on this machine: {}; try parallel.intra_op_threads=auto\n",
              counted(idle, "core"));
  for (const auto& warnings : {given.warnings, variable_warnings(given), shape_warnings(pipeline)})
    for (const std::string& warning : warnings) print_out("warning: {}\n", warning);
  print_out("\n");
  print_stages(planned);
  print_edges(planned);
  if (is_described(planned))
    print_out(
        "\nno times and no schedule: a described device is not measured\n{}",
        given.pipeline.partition.empty() && pipeline.partition.size() > 1
            ? "the partition comes from times on this CPU; parallel.partition sets a fixed one\n"
            : "");
  const bool fits = print_memory(planned);
  if (!is_described(planned)) print_schedule(planned);
  if (processes > 1) print_processes(planned);
  return fits ? exit_done : exit_failed;
}

/// As plan(). If the data are not here, the error also says how to plan without them.
int plan_or_offer_synthetic_data(const PlanArguments& arguments, const Definitions& own) try {
  return plan(arguments, own);
} catch (const Error& error) {
  const Error worded = in_words_of_the_command(error, own);
  if (worded.message().find("data.path is") == std::string::npos &&
      worded.remedy().find("set data.path to") == std::string::npos)
    throw;
  throw Error(worded.code(), worded.message(),
              worded.remedy() +
                  "; or plan with -r data.name=synthetic, and data.shape and data.classes of the "
                  "data set (CIFAR-10: -r 'data.shape=[3, 32, 32]' -r data.classes=10)");
}

}  // namespace

void add_plan_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb = app.add_subcommand("plan", "Show stages, memory, schedule and edges of a run");
  verb->add_option("FILE", arguments->options,
                   "options file (YAML); `troupe options` lists the keys")
      ->required();
  verb->add_option("-r,--override", arguments->overrides, "overrides the file (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--nnodes", arguments->hosts, "nodes of the run (1)")
      ->check(CLI::Range(1, most_hosts))
      ->option_text("NUMBER");
  verb->add_option("--nproc-per-node,--nproc_per_node,--nproc", arguments->processes_per_host,
                   "processes on each node (1)")
      ->check(CLI::Range(1, most_processes))
      ->option_text("NUMBER");
  verb->add_option(
          "--device", arguments->device,
          fmt::format("device to plan for: cpu, cuda (the GPU of this host), auto, or a GPU\n"
                      "that this host need not have: {}\n"
                      "(the option device)",
                      fmt::join(described_devices(), ", ")))
      ->check([](const std::string& name) { return name.empty() ? "the name is empty" : ""; })
      ->type_name("NAME");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) {
      return plan_or_offer_synthetic_data(*arguments, call.own);
    };
  });
}

}  // namespace troupe

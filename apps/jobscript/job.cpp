#include "apps/jobscript/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/jobscript/partition.h"
#include "apps/jobscript/slurm_time.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Profile = ClusterProfile;

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorCode::usage, what, remedy);
}

/// The kind of nodes whose GPUs the job takes if nothing is said about GPUs, or nullptr: that of
/// the partition asked for, else the first that CUDA runs on.
const Profile::NodeKind* kind_with_gpus(const Profile& profile, const JobRequest& request) {
  for (const auto& partition : profile.partitions)
    if (!request.partition.empty() && partition.name == request.partition) {
      const Profile::NodeKind& kind = profile.kind_of(partition);
      if (kind.gpus > 0) return &kind;
    }
  const bool known =
      std::any_of(profile.partitions.begin(), profile.partitions.end(), [&](const auto& partition) {
        return !request.partition.empty() && partition.name == request.partition;
      });
  if (known) return nullptr;
  const auto usable = std::find_if(profile.nodes.begin(), profile.nodes.end(),
                                   [](const auto& kind) { return kind.gpus > 0 && kind.gpu_cuda; });
  return usable == profile.nodes.end() ? nullptr : &*usable;
}

/// Whether a job that says nothing of it could get nodes without GPUs.
bool has_cpu_nodes(const Profile& profile) {
  return std::any_of(profile.partitions.begin(), profile.partitions.end(), [&](const auto& p) {
    return profile.kind_of(p).gpus == 0 && !p.by_name && p.qos.empty();
  });
}

/// GPUs of a node: as asked for; none where nothing computes on them and there are other nodes;
/// else one for each stage where they fit a node, for fewer processes as many; else all.
std::int64_t choose_gpus(const Profile& profile, const JobRequest& request, const JobShape& shape) {
  if (request.gpus_per_node) return *request.gpus_per_node;
  const bool open = request.partition.empty() && request.qos.empty();
  if (!request.computes_on_gpus && open && has_cpu_nodes(profile)) return 0;
  const Profile::NodeKind* kind = kind_with_gpus(profile, request);
  if (kind == nullptr) return 0;
  if (request.tasks_per_node && request.launcher == "srun")
    return std::min(*request.tasks_per_node, kind->gpus);
  return request.nodes == 1 ? std::min(shape.stages(), kind->gpus) : kind->gpus;
}

void check_gpus(const JobPlan& plan, const JobRequest& request, const JobShape& shape) {
  const auto& kind = plan.kind;
  if (plan.gpus > kind.gpus)
    refuse(fmt::format("--gpus-per-node is {}, but a node of {} has {}", plan.gpus,
                       plan.profile.title, counted(kind.gpus, kind.gpu)),
           fmt::format("--gpus-per-node {} --nodes {}", kind.gpus,
                       (plan.gpus * plan.nodes + kind.gpus - 1) / kind.gpus));
  const auto& counts = kind.gpu_counts;
  if (plan.gpus > 0 && !counts.empty() &&
      std::find(counts.begin(), counts.end(), plan.gpus) == counts.end()) {
    const auto more = std::find_if(counts.begin(), counts.end(),
                                   [&](std::int64_t count) { return count > plan.gpus; });
    const std::int64_t better = more == counts.end() ? counts.back() : *more;
    refuse(
        fmt::format("{} does not give {} of a node", plan.profile.title, counted(plan.gpus, "GPU")),
        request.gpus_per_node
            ? fmt::format("--gpus-per-node {}", better)
            : fmt::format("--gpus-per-node {}, and change parallel in {} to match", better,
                          shape.file));
  }
}

/// Processes of a node: as asked for; one for each GPU; on CPU nodes one for each stage.
std::int64_t choose_processes(const JobPlan& plan, const JobRequest& request,
                              const JobShape& shape) {
  if (request.tasks_per_node) return *request.tasks_per_node;
  if (plan.gpus > 0) return plan.gpus;
  return std::max<std::int64_t>(1, shape.stages() / plan.nodes);
}

/// Cores that the processes of a node use: of CPU nodes those that its stages and loaders need.
std::int64_t choose_cores(const JobPlan& plan, const JobRequest& request, const JobShape& shape) {
  const std::int64_t forked = plan.processes / plan.tasks;
  if (request.cpus_per_task) return *request.cpus_per_task;
  if (plan.gpus > 0) return std::max<std::int64_t>(1, plan.gpus * plan.kind.gpu_cores / plan.tasks);
  const std::int64_t share = std::max<std::int64_t>(1, plan.kind.cores / plan.tasks);
  if (plan.partition.whole_nodes) return share;
  const std::int64_t world = plan.nodes * plan.processes;
  const std::int64_t stages = (shape.stages() + world - 1) / world;  // at most
  return std::min(share, forked * (stages * shape.intra_op_threads + shape.workers));
}

double choose_memory(const JobPlan& plan, const JobRequest& request) {
  if (request.memory) return *request.memory;
  if (plan.gpus > 0) return plan.kind.gpu_memory * static_cast<double>(plan.gpus);
  if (plan.partition.whole_nodes) return 0;  // all of it comes with the node
  return std::floor(plan.kind.core_memory * static_cast<double>(plan.tasks * plan.cores));
}

/// Long enough for a checkpoint and for Slurm, which looks every thirty seconds; never more than a
/// fifth of the job.
std::chrono::seconds choose_signal(const JobRequest& request) {
  using std::chrono::seconds;
  constexpr seconds usual{180}, least{60};
  if (!request.signal_before)
    return request.time < 2 * least ? seconds(0)
                                    : std::max(least, std::min(usual, seconds(request.time / 5)));
  const seconds asked = *request.signal_before;
  if (asked.count() != 0 && asked < least)
    refuse(
        fmt::format("--signal-before is {} s; Slurm looks at its clock every 30 s", asked.count()),
        "60s or more, and the time that a checkpoint takes");
  if (asked >= request.time)
    refuse(fmt::format("--signal-before is {}, but the job has only {}", slurm_time(asked),
                       slurm_time(request.time)),
           "a longer --time, or a shorter --signal-before");
  return asked;
}

void add_conditions(JobPlan& plan, const JobRequest& request) {
  auto& words = plan.conditions;
  words.emplace_back(plan.gpus > 0 ? "gpu" : "cpu");
  words.emplace_back(request.container.empty() ? "native" : "container");
  for (const std::string_view kind : {"edf", "apptainer", "podman"})
    if (request.container == kind) words.push_back(kind);
  if (plan.nodes > 1) words.emplace_back("several_nodes");
  if (plan.gpus > 0 && plan.gpus == plan.kind.gpus && plan.tasks == plan.gpus)
    words.emplace_back("all_gpus");
}

/// Traffic within a node is the fastest: a part of several nodes is taken only if asked for.
std::string parts_of_nodes(const JobPlan& plan) {
  const std::int64_t all = plan.nodes * plan.gpus;
  if (plan.nodes == 1 || plan.gpus == 0 || plan.gpus >= plan.kind.gpus) return {};
  const std::int64_t nodes = (all + plan.kind.gpus - 1) / plan.kind.gpus;
  const std::int64_t limit = plan.partition.max_node_gpus;
  if (nodes >= plan.nodes || all % nodes != 0 || (limit > 0 && all / nodes > limit)) return {};
  return fmt::format(
      "{} of each of {} nodes would fit {}, which sends less between nodes: --nodes {} "
      "--gpus-per-node {}",
      counted(plan.gpus, "GPU"), plan.nodes, counted(nodes, "node"), nodes, all / nodes);
}

/// Cores that the threads of a node's processes keep busy, on CPU nodes.
std::int64_t busy_cores(const JobPlan& plan, const JobShape& shape) {
  const std::int64_t world = plan.nodes * plan.processes;
  const std::int64_t stages = (shape.stages() + world - 1) / world;
  return plan.processes * (stages * shape.intra_op_threads + shape.workers);
}

void add_notes(JobPlan& plan, const JobRequest& request, const JobShape& shape) {
  const Profile& profile = plan.profile;
  auto& notes = plan.notes;
  if (!profile.closed.empty())
    notes.push_back(fmt::format("{} is closed {}", profile.title, profile.closed));
  if (!plan.partition.note.empty())
    notes.push_back(fmt::format("partition {}: {}", plan.partition.name, plan.partition.note));
  if (plan.gpus > 0 && !plan.kind.gpu_cuda)
    notes.push_back(
        fmt::format("Troupe has no kernels for {}: the {} of a node stay idle; "
                    "--gpus-per-node 0 takes CPU nodes",
                    plan.kind.gpu, counted(plan.gpus, "GPU")));
  if (plan.gpus > 0 && plan.kind.gpu_cuda && plan.gpus_stay_idle)
    notes.emplace_back(
        "this troupe was built without CUDA and computes on the cores that come with the GPUs");
  if (plan.gpus == 0 && plan.kind.gpus == 0 && !request.gpus_per_node &&
      request.partition.empty() && !request.computes_on_gpus && profile.has_gpus())
    notes.emplace_back(
        "this troupe was built without CUDA, so CPU nodes are taken; --gpus-per-node 1 or more "
        "takes "
        "GPU nodes");
  if (plan.gpus == 0 && plan.kind.gpus > 0)
    notes.push_back(fmt::format("{} has no CPU nodes: {} of each node stay idle", profile.title,
                                counted(plan.kind.gpus, plan.kind.gpu)));
  const std::int64_t used = plan.gpus > 0 ? plan.tasks * plan.cores : busy_cores(plan, shape);
  if (plan.partition.whole_nodes && used < plan.kind.cores / 2)
    notes.push_back(
        fmt::format("nodes of {} are given whole: the job pays for {} cores of each and "
                    "uses {}",
                    plan.partition.name, plan.kind.cores, used));
  if (std::string parts = parts_of_nodes(plan); !parts.empty()) notes.push_back(std::move(parts));
  if (shape.data_of_debian && request.container.empty())
    notes.emplace_back(
        "data.path is empty, which is where Debian's dataset-fashion-mnist has its files: where "
        "the cluster has none, copy them and give -r data.path=FOLDER");
  if (profile.needs_account && request.account.empty())
    notes.emplace_back("no --account is given: put your project into the script");
  if (plan.signal_before.count() > 0 && !request.requeue)
    notes.emplace_back("without requeueing, go on by hand: submit the script again");
}

/// "parallel.data to 6 and train.micro_batches to 6" of "parallel.data=6 train.micro_batches=6".
std::string in_words(std::string assignments) {
  for (const auto& [sign, word] : {std::pair{" ", " and "}, std::pair{"=", " to "}})
    for (std::size_t at = 0; (at = assignments.find(sign, at)) != std::string::npos;
         at += std::string_view(word).size())
      assignments.replace(at, 1, word);
  return assignments;
}

}  // namespace

bool JobPlan::holds(const ClusterProfile::Line& line) const {
  return std::all_of(line.when.begin(), line.when.end(), [&](const std::string& word) {
    return std::find(conditions.begin(), conditions.end(), word) != conditions.end();
  });
}

void check_work(const JobShape& shape, std::int64_t nodes, std::int64_t processes) {
  if (shape.one_host_only && nodes > 1)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("{}: parallel.transport: shm, but the job has {} nodes", shape.file, nodes),
        "set parallel.transport: auto (shared memory within a node, Gloo between nodes), or "
        "--nodes 1");
  const std::int64_t world = nodes * processes;
  if (world <= shape.stages()) return;
  const std::string have =
      fmt::format("{}, but the job has {} ({} × {})", work_words(shape.spread),
                  counted(world, "process"), counted(nodes, "node"), processes);
  const auto ways = spreads_over(world, shape.spread);
  const bool by_pipeline = !ways.empty() && ways.front().starts_with("parallel.pipeline");
  const std::string& where = by_pipeline ? shape.pipeline_where : shape.data_where;
  const bool in_file = where != "default";
  std::string remedy = ways.empty() ? ""
                                    : fmt::format("set {}{}, or ", in_words(ways.front()),
                                                  in_file ? "" : " in " + shape.file);
  remedy += nodes <= shape.stages() ? fmt::format("--tasks-per-node {}", shape.stages() / nodes)
                                    : fmt::format("--nodes {} --tasks-per-node 1", shape.stages());
  throw Error(ErrorCode::bad_options, fmt::format("{}: {}", in_file ? where : shape.file, have),
              remedy);
}

JobPlan plan_job(const ClusterProfile& profile, const JobRequest& request, const JobShape& shape) {
  if (request.time.count() <= 0)
    refuse("no --time is given", "the longest that the job may take, such as --time 2:00:00");
  JobPlan plan;
  plan.profile = profile;
  plan.nodes = request.nodes;
  plan.time = request.time;
  plan.gpus = choose_gpus(profile, request, shape);
  plan.partition = choose_partition(profile, request, plan.gpus);
  plan.kind = profile.kind_of(plan.partition);
  check_gpus(plan, request, shape);
  plan.processes = choose_processes(plan, request, shape);
  check_work(shape, plan.nodes, plan.processes);
  plan.tasks = request.launcher == "launch" ? 1 : plan.processes;
  plan.cores = choose_cores(plan, request, shape);
  if (plan.tasks * plan.cores > plan.kind.cores)
    refuse(
        fmt::format("{} of {} need {} cores, but a node of {} has {}",
                    counted(plan.tasks, "process"), counted(plan.cores, "core"),
                    plan.tasks * plan.cores, profile.title, plan.kind.cores),
        fmt::format("--cpus-per-task {}", std::max<std::int64_t>(1, plan.kind.cores / plan.tasks)));
  plan.memory = choose_memory(plan, request);
  plan.signal_before = choose_signal(request);
  plan.gpus_stay_idle = plan.gpus > 0 && !(request.computes_on_gpus && plan.kind.gpu_cuda);
  add_conditions(plan, request);
  add_notes(plan, request, shape);
  if (std::string uneven = uneven_words(plan.nodes * plan.processes, shape.spread); !uneven.empty())
    plan.notes.push_back(std::move(uneven));
  return plan;
}

}  // namespace troupe

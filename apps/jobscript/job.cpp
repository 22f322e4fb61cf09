#include "apps/jobscript/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/jobscript/partition.h"
#include "apps/jobscript/slurm_time.h"
#include "runtime/error.h"
#include "runtime/print.h"
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

/// GPUs of a node: as asked for; one if the run computes on it; none where nothing computes on them
/// and there are other nodes; else one for each stage where they fit a node, for fewer processes as
/// many; else all.
std::int64_t choose_gpus(const Profile& profile, const JobRequest& request, const JobShape& shape) {
  if (request.gpus_per_node) return *request.gpus_per_node;
  const bool open = request.partition.empty() && request.qos.empty();
  if (!request.computes_on_gpus && open && has_cpu_nodes(profile)) return 0;
  const Profile::NodeKind* kind = kind_with_gpus(profile, request);
  if (kind == nullptr) return 0;
  if (request.computes_on_gpus && kind->gpu_cuda) return 1;
  if (request.tasks_per_node && request.launcher == "srun")
    return std::min(*request.tasks_per_node, kind->gpus);
  return request.nodes == 1 ? std::min(shape.stages(), kind->gpus) : kind->gpus;
}

void check_gpus(const JobLayout& layout, const JobRequest& request, const JobShape& shape) {
  const auto& kind = layout.kind;
  if (layout.gpus > kind.gpus)
    refuse(fmt::format("--gpus-per-node is {}, but a node of {} has {}", layout.gpus,
                       layout.profile.title, counted(kind.gpus, kind.gpu)),
           fmt::format("--gpus-per-node {} --nodes {}", kind.gpus,
                       (layout.gpus * layout.nodes + kind.gpus - 1) / kind.gpus));
  const auto& counts = kind.gpu_counts;
  if (layout.gpus > 0 && !counts.empty() &&
      std::find(counts.begin(), counts.end(), layout.gpus) == counts.end()) {
    const auto more = std::find_if(counts.begin(), counts.end(),
                                   [&](std::int64_t count) { return count > layout.gpus; });
    const std::int64_t better = more == counts.end() ? counts.back() : *more;
    refuse(fmt::format("{} does not give {} of a node", layout.profile.title,
                       counted(layout.gpus, "GPU")),
           request.gpus_per_node
               ? fmt::format("--gpus-per-node {}", better)
               : fmt::format("--gpus-per-node {}, and change parallel in {} to match", better,
                             shape.file));
  }
}

/// Processes of a node: as requested, else one if it computes on a GPU, one for each GPU that stays
/// idle, on CPU nodes one for each stage.
std::int64_t choose_processes(const JobLayout& layout, const JobRequest& request,
                              const JobShape& shape) {
  if (request.tasks_per_node) return *request.tasks_per_node;
  if (layout.computes_on_gpu()) return 1;
  if (layout.gpus > 0) return layout.gpus;
  return std::max<std::int64_t>(1, shape.stages() / layout.nodes);
}

// Like the next check, as the doctor does, but before the job waits in a queue.
void check_demanded_gpu(const JobLayout& layout, const JobRequest& request) {
  if (!request.gpu_demand) return;
  const auto& [option, remedy] = *request.gpu_demand;
  if (layout.computes_on_gpu()) return;
  if (!layout.profile.has_cuda_gpus())
    refuse(fmt::format("{}, but {} has no NVIDIA GPUs", option, layout.profile.title), remedy);
  refuse(option + ", but the job has no GPUs", "--gpus-per-node 1, or " + remedy);
}

/// Of sm_70: CUDA 13 has no kernels for it, and cuDNN has no plans in bf16.
bool is_volta(const ClusterProfile::NodeKind& kind) { return kind.gpu == "V100"; }

void check_precision_on_gpu(const JobLayout& layout, const JobShape& shape) {
  if (layout.computes_on_gpu() && shape.bf16 && is_volta(layout.kind))
    refuse(
        fmt::format("precision is bf16-mixed, but {} has no arithmetic in bf16", layout.kind.gpu),
        "-r precision=16-mixed");
}

void check_processes_on_gpu(const JobLayout& layout) {
  const std::int64_t world = layout.nodes * layout.processes;
  if (!layout.computes_on_gpu() || world == 1) return;
  refuse(fmt::format("{} ({} × {}), but a run on a GPU has one process", counted(world, "process"),
                     counted(layout.nodes, "node"), layout.processes),
         "--nodes 1 --tasks-per-node 1, or -r device=cpu");
}

/// Cores of a process: on CPU nodes those that its stages and loaders use.
std::int64_t choose_cores(const JobLayout& layout, const JobRequest& request,
                          const JobShape& shape) {
  const std::int64_t forked = layout.processes / layout.tasks;
  if (request.cpus_per_task) return *request.cpus_per_task;
  if (layout.gpus > 0)
    return std::max<std::int64_t>(1, layout.gpus * layout.kind.gpu_cores / layout.tasks);
  const std::int64_t share = std::max<std::int64_t>(1, layout.kind.cores / layout.tasks);
  if (layout.partition.whole_nodes) return share;
  const std::int64_t world = layout.nodes * layout.processes;
  const std::int64_t stages = (shape.stages() + world - 1) / world;  // at most
  return std::min(share, forked * (stages * shape.intra_op_threads + shape.workers));
}

double choose_memory(const JobLayout& layout, const JobRequest& request) {
  if (request.memory) return *request.memory;
  if (layout.gpus > 0) return layout.kind.gpu_memory * static_cast<double>(layout.gpus);
  if (layout.partition.whole_nodes) return 0;  // a job has the whole node
  return std::floor(layout.kind.core_memory * static_cast<double>(layout.tasks * layout.cores));
}

/// Enough for a checkpoint and for Slurm, which checks every 30 seconds; at most a fifth of the
/// job.
std::chrono::seconds choose_signal(const JobRequest& request) {
  using std::chrono::seconds;
  constexpr seconds usual{180}, least{60};
  if (!request.signal_before)
    return request.time < 2 * least ? seconds(0)
                                    : std::max(least, std::min(usual, seconds(request.time / 5)));
  const seconds asked = *request.signal_before;
  if (asked.count() != 0 && asked < least)
    refuse(
        fmt::format("--signal-before is {} s, but Slurm checks the time every 30 s", asked.count()),
        "give 60s or more, plus the time of a checkpoint");
  if (asked >= request.time)
    refuse(fmt::format("--signal-before is {}, but the job has only {}", slurm_time(asked),
                       slurm_time(request.time)),
           "a longer --time, or a shorter --signal-before");
  return asked;
}

void add_conditions(JobLayout& layout, const JobRequest& request) {
  auto& words = layout.conditions;
  words.emplace_back(layout.gpus > 0 ? "gpu" : "cpu");
  words.emplace_back(request.container.empty() ? "native" : "container");
  for (const std::string_view kind : {"edf", "apptainer", "podman"})
    if (request.container == kind) words.push_back(kind);
  if (layout.nodes > 1) words.emplace_back("several_nodes");
  if (layout.gpus > 0 && layout.gpus == layout.kind.gpus && layout.tasks == layout.gpus)
    words.emplace_back("all_gpus");
}

/// A note if the GPUs of a job would fit on fewer nodes, where traffic is faster.
std::string parts_of_nodes(const JobLayout& layout) {
  const std::int64_t all = layout.nodes * layout.gpus;
  if (layout.nodes == 1 || layout.gpus == 0 || layout.gpus >= layout.kind.gpus) return {};
  const std::int64_t nodes = (all + layout.kind.gpus - 1) / layout.kind.gpus;
  const std::int64_t limit = layout.partition.max_node_gpus;
  if (nodes >= layout.nodes || all % nodes != 0 || (limit > 0 && all / nodes > limit)) return {};
  return fmt::format(
      "{} of each of {} nodes fit on {}, with less traffic between nodes: --nodes {} "
      "--gpus-per-node {}",
      counted(layout.gpus, "GPU"), layout.nodes, counted(nodes, "node"), nodes, all / nodes);
}

/// Cores of a CPU node that the threads of its processes use.
std::int64_t busy_cores(const JobLayout& layout, const JobShape& shape) {
  const std::int64_t world = layout.nodes * layout.processes;
  const std::int64_t stages = (shape.stages() + world - 1) / world;
  return layout.processes * (stages * shape.intra_op_threads + shape.workers);
}

/// Of GPUs that the job has, lacks or does not use.
void add_gpu_notes(JobLayout& layout, const JobRequest& request) {
  const Profile& profile = layout.profile;
  auto& notes = layout.notes;
  const std::string_view why_on_cpu = built_with_cuda ? "device is cpu" : "this build has no CUDA";
  if (request.gpu_demand && !built_with_cuda && request.container.empty())
    notes.push_back("this build has no CUDA, which the job needs: run " + build_for(layout.kind));
  if (layout.gpus > 0 && !layout.kind.gpu_cuda)
    notes.push_back(
        fmt::format("Troupe has no kernels for {}: the {} of a node stay idle; "
                    "--gpus-per-node 0 uses CPU nodes",
                    layout.kind.gpu, counted(layout.gpus, "GPU")));
  if (layout.gpus > 0 && layout.kind.gpu_cuda && layout.gpus_stay_idle)
    notes.push_back(fmt::format(
        "{}: the run computes on the CPU cores of the GPU nodes, and the GPUs stay idle",
        why_on_cpu));
  if (layout.computes_on_gpu() && layout.gpus > 1)
    notes.push_back(
        fmt::format("a run uses one GPU, and {} of each node stay{} idle: give --gpus-per-node 1",
                    layout.gpus - 1, layout.gpus == 2 ? "s" : ""));
  if (layout.gpus == 0 && layout.kind.gpus == 0 && !request.gpus_per_node &&
      request.partition.empty() && !request.computes_on_gpus && profile.has_cuda_gpus())
    notes.push_back(
        fmt::format("{}, so the job uses CPU nodes; -r device=cuda requests a GPU", why_on_cpu));
  if (layout.gpus == 0 && layout.kind.gpus > 0)
    notes.push_back(fmt::format("{} has no CPU nodes: {} of each node stay idle", profile.title,
                                counted(layout.kind.gpus, layout.kind.gpu)));
}

/// Of a job that has whole nodes.
std::string paid_gpus(const JobLayout& layout) {
  if (layout.gpus == 0 || layout.kind.gpus <= layout.gpus) return {};
  return fmt::format("; it pays for {} of each, and uses {}", counted(layout.kind.gpus, "GPU"),
                     layout.gpus);
}

void add_notes(JobLayout& layout, const JobRequest& request, const JobShape& shape) {
  const Profile& profile = layout.profile;
  auto& notes = layout.notes;
  if (!profile.closed.empty())
    notes.push_back(fmt::format("{} is closed {}", profile.title, profile.closed));
  if (!layout.partition.note.empty())
    notes.push_back(fmt::format("partition {}: {}", layout.partition.name, layout.partition.note));
  if (!layout.computes_on_gpu() && shape.bf16)
    notes.emplace_back(
        "precision is bf16-mixed, for which CPUs need AVX-512 BF16 or AMX: troupe doctor on a node "
        "tells whether it has one");
  if (request.container.empty() && !request.built_for.empty() &&
      request.built_for != layout.kind.architecture)
    notes.push_back(
        fmt::format("this troupe is built for {}, but the nodes {} are {}: build it on one of them",
                    request.built_for, layout.kind.name, layout.kind.architecture));
  add_gpu_notes(layout, request);
  const std::int64_t used =
      layout.gpus > 0 ? layout.tasks * layout.cores : busy_cores(layout, shape);
  if (layout.partition.whole_nodes && used < layout.kind.cores / 2)
    notes.push_back(
        fmt::format("{} allocates whole nodes: the job pays for {} cores of each, and "
                    "its threads need {}{}",
                    layout.partition.name, layout.kind.cores, used, paid_gpus(layout)));
  if (std::string parts = parts_of_nodes(layout); !parts.empty()) notes.push_back(std::move(parts));
  if (!shape.fetched_data.empty() && !has_data_in_image(shape, request))
    notes.push_back(fmt::format(
        "data.path is empty: run '{} fetch {}' on a login node first ({}), or set "
        "data.path",
        program_name(), shape.fetched_data,
        request.data_folder.empty()
            ? "with TROUPE_DATA set, also for jobscript, if nodes cannot read ~/.local/share/troupe"
            : "into " + request.data_folder));
  const double of_node = layout.gpus > 0
                             ? layout.kind.gpu_memory * static_cast<double>(layout.kind.gpus)
                             : layout.kind.core_memory * static_cast<double>(layout.kind.cores);
  if (request.memory && of_node > 0 && *request.memory > of_node)
    notes.push_back(
        fmt::format("--mem asks for {:.0f} GiB, and {:.0f} GiB go with all {} of a node",
                    *request.memory, of_node, layout.gpus > 0 ? "GPUs" : "cores"));
  if (profile.needs_account && request.account.empty())
    notes.emplace_back("no --account is given: write your project into the script");
  if (layout.signal_before.count() > 0 && !request.requeue)
    notes.emplace_back("without requeueing, submit the script again to resume");
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

bool JobLayout::holds(const ClusterProfile::Line& line) const {
  return std::all_of(line.when.begin(), line.when.end(), [&](const std::string& word) {
    return std::find(conditions.begin(), conditions.end(), word) != conditions.end();
  });
}

bool has_data_in_image(const JobShape& shape, const JobRequest& request) {
  return shape.fetched_data == "fashion_mnist" && !request.container.empty();
}

std::string build_for(const ClusterProfile::NodeKind& kind) {
  return is_volta(kind) ? "./dev build --cuda=12" : "./dev build --cuda";
}

void check_work(const JobShape& shape, std::int64_t nodes, std::int64_t processes) {
  if (!joins_hosts(shape.transport) && nodes > 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: parallel.transport: {}, but the job has {} nodes", shape.file,
                            shape.transport, nodes),
                fmt::format("set parallel.transport: {} ({}), or --nodes 1", automatic_transport,
                            meaning_of_transport(automatic_transport)));
  const std::int64_t world = nodes * processes;
  if (world <= shape.stages()) return;
  const std::string have =
      fmt::format("{}, but the job has {} ({} × {})", work_words(shape.work),
                  counted(world, "process"), counted(nodes, "node"), processes);
  const auto ways = distributions_over(world, shape.work);
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

JobLayout lay_out_job(const ClusterProfile& profile, const JobRequest& request,
                      const JobShape& shape) {
  if (request.time.count() <= 0)
    refuse("no --time is given", "give the time limit of the job, such as --time 2:00:00");
  JobLayout layout;
  layout.profile = profile;
  layout.nodes = request.nodes;
  layout.time = request.time;
  layout.gpus = choose_gpus(profile, request, shape);
  layout.partition = choose_partition(profile, request, layout.gpus);
  layout.kind = profile.kind_of(layout.partition);
  check_gpus(layout, request, shape);
  layout.gpus_stay_idle = layout.gpus > 0 && !(request.computes_on_gpus && layout.kind.gpu_cuda);
  check_demanded_gpu(layout, request);
  layout.processes = choose_processes(layout, request, shape);
  check_precision_on_gpu(layout, shape);
  check_processes_on_gpu(layout);
  check_work(shape, layout.nodes, layout.processes);
  layout.tasks = request.launcher == "launch" ? 1 : layout.processes;
  layout.cores = choose_cores(layout, request, shape);
  if (layout.tasks * layout.cores > layout.kind.cores)
    refuse(
        fmt::format("{} of {} need {} cores, but a node of {} has {}",
                    counted(layout.tasks, "process"), counted(layout.cores, "core"),
                    layout.tasks * layout.cores, profile.title, layout.kind.cores),
        layout.tasks <= layout.kind.cores
            ? fmt::format("--cpus-per-task {}", layout.kind.cores / layout.tasks)
            : fmt::format("--nodes {}", (layout.nodes * layout.processes + layout.kind.cores - 1) /
                                            layout.kind.cores));
  layout.memory = choose_memory(layout, request);
  layout.signal_before = choose_signal(request);
  add_conditions(layout, request);
  add_notes(layout, request, shape);
  if (std::string uneven = uneven_words(layout.nodes * layout.processes, shape.work);
      !uneven.empty())
    layout.notes.push_back(std::move(uneven));
  return layout;
}

}  // namespace troupe

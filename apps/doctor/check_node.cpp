// The node itself: cores, processor, folders, memory, limits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "apps/doctor/checks.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

using Severity = Finding::Severity;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// The positive whole number in a variable, or 0.
std::int64_t number_in(const Machine& machine, const char* name) {
  const std::string text = machine.variable(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 ? value : 0;
}

/// 0 where OpenMP has no limit.
std::int64_t openmp_limit(const Machine& machine) {
  return openmp_threads(machine.variable("OMP_NUM_THREADS")).value_or(0);
}

bool is_shared(const std::string& file_system) {
  for (const char* shared : {"lustre", "nfs", "gpfs", "beegfs", "ceph", "smb", "afs", "panfs"})
    if (file_system == shared) return true;
  return false;
}

/// More threads of all processes than cores of the node.
Findings check_sharing(const Machine& machine, std::int64_t threads) {
  const std::int64_t processes = machine.processes();
  if (processes < 2 || machine.node_cores < 1 || processes * threads <= machine.node_cores)
    return {};
  return {{Severity::warning, "cores",
           fmt::format("{} processes of {} share {} of this node", processes,
                       counted(threads, "thread"), counted(machine.node_cores, "core")),
           fmt::format("start {}, or give the job {}",
                       counted(std::max<std::int64_t>(1, machine.node_cores / threads), "process"),
                       counted(processes * threads, "core"))}};
}

/// How to keep the stages of a process within its cores.
std::string fewer_threads(const Machine& machine, std::int64_t threads, std::int64_t stages) {
  const std::string more_cores = machine.has("SLURM_JOB_ID") ? ", or raise --cpus-per-task" : "";
  if (threads > 1 && stages <= machine.cores)
    return fmt::format("-r parallel.intra_op_threads={}{}", machine.cores / stages, more_cores);
  if (machine.world && machine.world->size > 1)
    return fmt::format("start more processes, or lower parallel.pipeline{}", more_cores);
  return fmt::format("-r parallel.pipeline={}{}", std::max<std::int64_t>(1, machine.cores),
                     more_cores);
}

/// As the run chooses them (apps/train/training.h).
std::int64_t actor_threads(const Machine& machine, const Demands& demands) {
  if (demands.actor_threads > 0) return demands.actor_threads;
  const std::int64_t most = std::max<std::int64_t>(1, stages_of_process(machine, demands));
  return std::clamp<std::int64_t>(
      machine.cores / std::max<std::int64_t>(1, demands.intra_op_threads), 1, most);
}

}  // namespace

std::int64_t stages_of_process(const Machine& machine, const Demands& demands) {
  const std::int64_t size = machine.world ? machine.world->size : 1;
  return (demands.work.total_stages() + size - 1) / std::max<std::int64_t>(1, size);
}

std::int64_t intra_op_threads(const Machine& machine, const Demands& demands) {
  if (demands.intra_op_threads > 0) return demands.intra_op_threads;
  const std::int64_t share =
      std::max<std::int64_t>(1, machine.cores / actor_threads(machine, demands));
  const std::int64_t limit = openmp_limit(machine);
  return limit > 0 ? std::min(share, limit) : share;
}

Findings check_cores(const Machine& machine, const Demands& demands) {
  Findings findings;
  const auto warn = [&](const std::string& message, const std::string& remedy) {
    findings.push_back({Severity::warning, "cores", message, remedy});
  };
  const std::int64_t threads = openmp_limit(machine);
  if (threads > machine.cores)
    warn(fmt::format("OMP_NUM_THREADS is {}, but this process has {}{}", threads,
                     counted(machine.cores, "core"),
                     machine.processes() > 1
                         ? fmt::format(" ({} processes share the node)", machine.processes())
                         : ""),
         fmt::format("OMP_NUM_THREADS={}", machine.cores));
  const std::int64_t stages = stages_of_process(machine, demands);
  const std::int64_t kernel_threads = intra_op_threads(machine, demands);
  const std::int64_t busy = stages * kernel_threads;
  const std::int64_t asked = demands.actor_threads * kernel_threads;
  if (demands.actor_threads > stages && asked > machine.cores)
    warn(fmt::format(
             "parallel.actor_threads {} × parallel.intra_op_threads {} in a process that has "
             "{}",
             demands.actor_threads, kernel_threads, counted(machine.cores, "core")),
         fmt::format("-r parallel.actor_threads={}",
                     std::max<std::int64_t>(1, machine.cores / kernel_threads)));
  if (demands.known && busy > machine.cores)
    warn(fmt::format("{} with {} in a process that has {}", counted(stages, "stage"),
                     counted(kernel_threads, "thread"), counted(machine.cores, "core")),
         fewer_threads(machine, kernel_threads, stages));
  else if (demands.known)
    std::ranges::move(check_sharing(machine, kernel_threads), std::back_inserter(findings));
  const std::int64_t actors = actor_threads(machine, demands);
  const std::int64_t idle = machine.cores - actors * kernel_threads;
  if (demands.known && demands.intra_op_threads + demands.actor_threads > 0 && idle >= actors)
    warn(fmt::format("{} of {} idle: {} of {}", idle, counted(machine.cores, "core"),
                     counted(actors, "actor thread"), counted(kernel_threads, "intra-op thread")),
         "-r parallel.intra_op_threads=auto");
  if (machine.quota && *machine.quota + 0.5 < machine.affinity)
    warn(fmt::format("the control group allows {:.3g} CPUs of {}: more threads are throttled",
                     *machine.quota, machine.affinity),
         "request whole CPUs, or use no more threads than are allowed");
  const std::int64_t given = number_in(machine, "SLURM_CPUS_PER_TASK");
  if (machine.world && given > machine.affinity && machine.world->launcher == "slurm")
    warn(fmt::format("--cpus-per-task is {}, but this process may run on {} only", given,
                     counted(machine.affinity, "CPU")),
         "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun");
  return findings;
}

Findings check_architecture(const Machine& machine) {
  Findings findings;
  std::vector<std::string> lacking;
  for (const std::string& feature : machine.compiled_for)
    if (!machine.features.empty() && std::find(machine.features.begin(), machine.features.end(),
                                               feature) == machine.features.end())
      lacking.push_back(feature);
  if (!lacking.empty())
    findings.push_back({Severity::error, "architecture",
                        fmt::format("this troupe is compiled for {}, which this processor lacks",
                                    fmt::join(lacking, ", ")),
                        "build it on this kind of node, or without -march"});
  return findings;
}

Findings check_precision(const Machine& machine, const Demands& demands) {
  const auto has = [&](const char* feature) {
    return std::ranges::count(machine.features, feature) > 0;
  };
  const bool has_bf16 = has("avx512_bf16") || has("amx_bf16");
  // Where a GPU is demanded, check_gpus tells if there is none.
  if (computes_on_gpu(machine, demands)) return {};
  Findings findings;
  if (demands.products == DType::f16)
    findings.push_back({Severity::error, "precision",
                        "precision is 16-mixed, which needs a GPU, but the CPU will compute",
                        has_bf16 ? "-r precision=32-true or bf16-mixed" : "-r precision=32-true"});
  if (demands.products == DType::bf16 && !machine.features.empty() && !has_bf16)
    findings.push_back(
        {Severity::error, "precision",
         "precision is bf16-mixed, but this processor has neither AVX-512 BF16 nor AMX",
         "-r precision=32-true, or a GPU"});
  return findings;
}

Findings check_folders(const Machine& machine) {
  Findings findings;
  for (const Machine::Folder& folder : machine.folders) {
    if (folder.file_system.empty())
      findings.push_back(
          {Severity::warning, "folders",
           fmt::format("{} is {}, which does not exist", folder.variable, folder.path),
           fmt::format("mkdir -p {}, or unset {}", folder.path, folder.variable)});
    else if (is_shared(folder.file_system))
      findings.push_back(
          {Severity::warning, "folders",
           fmt::format("{} is {} on {}, which all nodes share: many small files there slow down "
                       "the file system",
                       folder.variable, folder.path, folder.file_system),
           folder.variable == "CUDA_CACHE_PATH"
               ? "CUDA_CACHE_DISABLE=1, or CUDA_CACHE_PATH on the node, such as /tmp/cuda-cache"
               : fmt::format("set {} to a folder of the node, such as /tmp or /dev/shm",
                             folder.variable)});
  }
  return findings;
}

Findings check_limits(const Machine& machine) {
  Findings findings;
  const auto add = [&](Severity severity, const std::string& message, const std::string& remedy) {
    findings.push_back({severity, "limits", message, remedy});
  };
  // Connections to every other process (five files by Gloo, one or two for control), both ends of
  // pipes, files and libraries.
  const std::int64_t processes = machine.world ? machine.world->size : 1;
  const std::uint64_t needed = 128 + 8 * static_cast<std::uint64_t>(processes);
  if (machine.open_files < needed)
    add(Severity::error,
        fmt::format(
            "this process may open {} files, but a run of {} needs about {} in each process",
            machine.open_files, counted(processes, "process"), needed),
        fmt::format("ulimit -n {}", std::max<std::uint64_t>(needed, 4096)));
  const bool fabric = std::any_of(
      machine.interfaces.begin(), machine.interfaces.end(),
      [](const auto& i) { return i.name.starts_with("hsn") || i.name.starts_with("ib"); });
  if (fabric && machine.several_nodes() && machine.locked_memory < 64 * mebibyte)
    add(Severity::warning,
        fmt::format("this process may lock {} KiB of memory, too little for the fast network",
                    machine.locked_memory / 1024),
        "ulimit -l unlimited; ask the administrators if it is refused");
  if (machine.several_nodes() && !machine.clock_synchronised)
    add(Severity::warning, "the clock of this node is not synchronised",
        "ask the administrators; it affects the times in logs, not the results");
  return findings;
}

}  // namespace troupe

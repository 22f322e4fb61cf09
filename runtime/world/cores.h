#pragma once
// Which cores a process may use, and which of them are its own where several processes share a
// node.

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "runtime/world/world.h"

namespace troupe {

/// One logical CPU and the physical core it belongs to; siblings share a core.
struct Cpu {
  int number = 0;
  int package = 0;
  int core = 0;
  auto operator<=>(const Cpu&) const = default;
};

/// The CPUs that the calling thread may run on, siblings and packages next to each other. The
/// topology is read from `system` (sysfs); CPUs that it does not describe count as cores of their
/// own.
std::vector<Cpu> usable_cpus(const std::filesystem::path& system = "/sys/devices/system/cpu");

/// The CPUs that a control group's quota amounts to, which may be a fraction: the smallest on the
/// way from the calling process's group to the root, cpu.max (version 2) or cpu.cfs_quota_us
/// (version 1). Nothing if none is set or none can be read.
std::optional<double> cpu_quota(const std::filesystem::path& groups = "/sys/fs/cgroup",
                                const std::filesystem::path& own = "/proc/self/cgroup");

/// The CPUs of part `index` of `parts`: neighbours, whole physical cores while there is one for
/// each part, the remainder to the first parts. With fewer CPUs than parts each part has one, and
/// parts share them in turn. Nothing only if `cpus` is empty.
std::vector<int> share_of(std::span<const Cpu> cpus, int index, int parts);

/// Threads for one of `processes` that share a quota: a thread a CPU, at least one, and together no
/// more than the quota.
int threads_for(std::size_t cpus, std::optional<double> quota, int processes);

/// What a process of a world may use.
struct CoreShare {
  std::vector<int> cpus;  ///< numbers of the CPUs, at least one
  int threads = 1;        ///< to start: the CPUs, or fewer by a quota or Slurm's allocation
  bool bound_by_launcher = false;  ///< the launcher had bound this process to them already
};

/// The share of the calling process. Where the launcher bound it (`troupe launch`, srun with
/// --cpus-per-task or --cpu-bind, mpirun --bind-to) that is what it may run on; otherwise its part
/// by local rank of what all processes of the node may run on.
CoreShare core_share(const World& world, const Environment& environment,
                     std::optional<double> quota = cpu_quota());

/// The CPUs that the processes of this node have together, a quota included: where a launcher has
/// bound each to its own, those that it had itself. Where that cannot be known, as many as if no
/// two processes shared one.
int node_cores(const World& world, const Environment& environment,
               std::optional<double> quota = cpu_quota());

/// Binds the calling thread, and the threads it starts from now on, to these CPUs. Best effort:
/// false if the system refuses, as inside some containers. May be called between fork and exec.
bool bind_to(std::span<const int> cpus);

}  // namespace troupe

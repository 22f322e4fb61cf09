#pragma once
// The cores that a process may use, and its share of them if several processes share a node.

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/world/world.h"

namespace troupe {

/// A logical CPU and its physical core; siblings share a core.
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

/// The quota of the control group in CPUs, which may be a fraction: the smallest on the path from
/// the calling process's group to the root, from cpu.max (version 2) or cpu.cfs_quota_us (version
/// 1). Empty if none is set or none can be read.
std::optional<double> cpu_quota(const std::filesystem::path& groups = "/sys/fs/cgroup",
                                const std::filesystem::path& own = "/proc/self/cgroup");

/// The CPUs of part `index` of `parts`: neighbouring CPUs, in whole physical cores if there are at
/// least as many cores as parts. The first parts get the remainder. With fewer CPUs than parts,
/// each part has one CPU, and parts share CPUs in turn. Empty only if `cpus` is empty.
std::vector<int> share_of(std::span<const Cpu> cpus, int index, int parts);

/// Threads for one of `processes` that share a quota: one per CPU, at least one, and together at
/// most the quota.
int threads_for(std::size_t cpus, std::optional<double> quota, int processes);

/// The first number of OMP_NUM_THREADS: a list such as "4,2" is for nested regions. Empty for what
/// OpenMP ignores: anything but positive whole numbers, with blanks around them.
std::optional<int> openmp_threads(std::string_view list);

/// The CPUs and threads of a process of a world.
struct CoreShare {
  std::vector<int> cpus;  ///< numbers of the CPUs, at least one
  int threads = 1;        ///< to start: one per CPU, fewer under a quota or Slurm's allocation
  bool bound_by_launcher = false;  ///< by the launcher, before this process started
};

/// The share of the calling process. If the launcher bound it (`troupe launch`, srun with
/// --cpus-per-task or --cpu-bind, mpirun --bind-to), the share is the set of CPUs that it may run
/// on. Otherwise it is the process's part, by local rank, of the CPUs that all processes of the
/// node may run on.
CoreShare core_share(const World& world, const Environment& environment,
                     std::optional<double> quota = cpu_quota());

/// The number of CPUs that the processes of this node have together, limited by a quota. If the
/// launcher bound each process to its own CPUs, those of the launcher. If that is unknown, the
/// number as if no two processes shared a CPU.
int node_cores(const World& world, const Environment& environment,
               std::optional<double> quota = cpu_quota());

/// Binds the calling thread, and the threads that it starts later, to these CPUs. Returns false if
/// the system refuses, as in some containers. May be called between fork and exec.
bool bind_to(std::span<const int> cpus);

}  // namespace troupe

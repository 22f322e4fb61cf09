#include "runtime/world/cores.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string>
#include <tuple>

#include "runtime/world/control_groups.h"

namespace troupe {
namespace {

constexpr int most_cpus = 8192;

/// The CPUs that a process may run on; empty if unknown.
std::vector<int> affinity_of(pid_t pid) {
  std::vector<int> numbers;
  std::array<cpu_set_t, most_cpus / CPU_SETSIZE> sets;
  if (::sched_getaffinity(pid, sizeof sets, sets.data()) == 0)
    for (int cpu = 0; cpu < most_cpus; ++cpu)
      if (CPU_ISSET_S(cpu, sizeof sets, sets.data())) numbers.push_back(cpu);
  return numbers;
}

int number_in(const std::filesystem::path& file, int otherwise) {
  int value = 0;
  std::ifstream stream(file);
  return stream >> value ? value : otherwise;
}

/// The quota of one group, version 2: "max 100000" or "150000 100000".
std::optional<double> quota_v2(const std::filesystem::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

std::optional<double> quota_v1(const std::filesystem::path& folder) {
  const int quota = number_in(folder / "cpu.cfs_quota_us", -1);
  const int period = number_in(folder / "cpu.cfs_period_us", -1);
  if (quota > 0 && period > 0) return static_cast<double>(quota) / period;
  return std::nullopt;
}

/// Whether the launcher gave each process CPUs of its own.
bool bound_by_launcher(const World& world, const Environment& environment, std::size_t cpus) {
  if (world.local_size == 1) return true;
  if (environment.has("TROUPE_CPUS")) return true;
  if (world.launcher == "slurm") {
    // The parent's mask is of no use: the parent is not confined to the job as its tasks are.
    if (const auto per_task = environment.number("SLURM_CPUS_PER_TASK", 1))
      return cpus <= static_cast<std::size_t>(*per_task);
    const auto type = environment.get("SLURM_CPU_BIND_TYPE");
    return type && *type != "none";
  }
  // Otherwise the mask tells: a launcher that binds has more CPUs than the processes it binds.
  const auto parent = affinity_of(::getppid());
  return parent.size() > cpus;
}

/// The CPUs that Slurm has allocated to a task. Where it confines nobody (TaskPlugin=task/none), a
/// task may run on all of the node, but should not.
int allocated_by_slurm(const World& world, const Environment& environment, int otherwise) {
  if (world.launcher != "slurm") return otherwise;
  if (const auto per_task = environment.number("SLURM_CPUS_PER_TASK", 1)) return *per_task;
  const auto on_node = environment.number("SLURM_CPUS_ON_NODE", 1);
  return on_node ? std::max(1, *on_node / world.local_size) : otherwise;
}

}  // namespace

std::vector<Cpu> usable_cpus(const std::filesystem::path& system) {
  std::vector<Cpu> cpus;
  for (const int number : affinity_of(0)) {
    const auto topology = system / fmt::format("cpu{}", number) / "topology";
    cpus.push_back({.number = number,
                    .package = number_in(topology / "physical_package_id", 0),
                    .core = number_in(topology / "core_id", most_cpus + number)});
  }
  std::sort(cpus.begin(), cpus.end(), [](const Cpu& a, const Cpu& b) {
    return std::tie(a.package, a.core, a.number) < std::tie(b.package, b.core, b.number);
  });
  return cpus;
}

std::optional<double> cpu_quota(const std::filesystem::path& groups,
                                const std::filesystem::path& own) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", groups, own)) {
    const auto quota = group.version == 2 ? quota_v2(group.folder) : quota_v1(group.folder);
    if (quota) least = least ? std::min(*least, *quota) : quota;
  }
  return least;
}

std::vector<int> share_of(std::span<const Cpu> cpus, int index, int parts) {
  if (cpus.empty()) return {};
  // Begins of physical cores; the unit that is divided is a core as long as there are enough.
  std::vector<std::size_t> units;
  for (std::size_t i = 0; i < cpus.size(); ++i)
    if (i == 0 || cpus[i].core != cpus[i - 1].core || cpus[i].package != cpus[i - 1].package)
      units.push_back(i);
  const auto count = static_cast<std::size_t>(parts), part = static_cast<std::size_t>(index);
  if (units.size() < count) {
    units.resize(cpus.size());
    for (std::size_t i = 0; i < cpus.size(); ++i) units[i] = i;
  }
  if (units.size() < count) return {cpus[part % cpus.size()].number};
  const std::size_t each = units.size() / count, rest = units.size() % count;
  const std::size_t begin = part * each + std::min(part, rest);
  const std::size_t end = begin + each + (part < rest ? 1 : 0);
  std::vector<int> share;
  for (std::size_t i = units[begin]; i < (end < units.size() ? units[end] : cpus.size()); ++i)
    share.push_back(cpus[i].number);
  return share;
}

int threads_for(std::size_t cpus, std::optional<double> quota, int processes) {
  const int most = std::max(1, static_cast<int>(cpus));
  return quota ? std::clamp(static_cast<int>(*quota / processes), 1, most) : most;
}

std::optional<int> openmp_threads(std::string_view list) {
  const char *at = list.data(), *const end = at + list.size();
  const auto skip_blanks = [&] {
    while (at != end && (*at == ' ' || *at == '\t')) ++at;
  };
  std::optional<int> first;
  for (;; ++at) {
    skip_blanks();
    int value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1) return std::nullopt;
    if (!first) first = value;
    at = rest;
    skip_blanks();
    if (at == end) return first;
    if (*at != ',') return std::nullopt;
  }
}

CoreShare core_share(const World& world, const Environment& environment,
                     std::optional<double> quota) {
  const auto cpus = usable_cpus();
  CoreShare share;
  share.bound_by_launcher = bound_by_launcher(world, environment, cpus.size());
  share.cpus = share.bound_by_launcher ? share_of(cpus, 0, 1)
                                       : share_of(cpus, world.local_rank, world.local_size);
  if (share.cpus.empty()) share.cpus = {0};
  const int allowed = threads_for(share.cpus.size(), quota, world.local_size);
  share.threads = std::min(allowed, allocated_by_slurm(world, environment, allowed));
  return share;
}

int node_cores(const World& world, const Environment& environment, std::optional<double> quota) {
  const int own = static_cast<int>(usable_cpus().size());
  int cores = own;
  if (const auto known = environment.number("TROUPE_NODE_CPUS", 1))
    cores = *known;
  else if (const auto allocated = environment.number("SLURM_CPUS_ON_NODE", 1);
           world.launcher == "slurm")
    cores = allocated.value_or(own * world.local_size);
  else
    cores = std::max(own, static_cast<int>(affinity_of(::getppid()).size()));
  return quota ? std::clamp(static_cast<int>(*quota), 1, std::max(1, cores)) : std::max(1, cores);
}

bool bind_to(std::span<const int> cpus) {
  // On the stack: a process that has just been forked calls this.
  std::array<cpu_set_t, most_cpus / CPU_SETSIZE> sets;
  CPU_ZERO_S(sizeof sets, sets.data());
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < most_cpus) CPU_SET_S(cpu, sizeof sets, sets.data());
  return ::sched_setaffinity(0, sizeof sets, sets.data()) == 0;
}

}  // namespace troupe

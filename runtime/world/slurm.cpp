// What srun sets for each task of a step, tried with Slurm 22.05. The batch script's own shell and
// the shell of salloc have some of the same variables, but are no tasks of a step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/world/host_list.h"
#include "runtime/world/sources.h"

namespace troupe {
namespace {

/// Slurm's numbers for what is no step of srun: interactive, batch script, extern, pending
/// (SLURM_INTERACTIVE_STEP and its neighbours in slurm.h).
constexpr std::array<std::string_view, 6> no_steps{"4294967290", "4294967291", "4294967292",
                                                   "4294967293", "4294967294", "4294967295"};

std::optional<std::string> step_of(const Environment& environment) {
  auto step = environment.get("SLURM_STEP_ID");
  if (!step) step = environment.get("SLURM_STEPID");
  if (!step || std::find(no_steps.begin(), no_steps.end(), *step) != no_steps.end())
    return std::nullopt;
  return step;
}

int required(const Environment& environment, std::string_view name, int least) {
  if (const auto value = environment.number(name, least)) return *value;
  contradict(fmt::format("this is a task of a Slurm step (SLURM_PROCID={}), but {} is not set",
                         *environment.get("SLURM_PROCID"), name),
             "start with srun and leave its variables; env -u SLURM_PROCID for one process");
}

int tasks_of(const Environment& environment) {
  const auto tasks = environment.number("SLURM_STEP_NUM_TASKS", 1);
  return tasks ? *tasks : required(environment, "SLURM_NTASKS", 1);
}

/// Tasks of each node; `2,1` for three tasks on two nodes.
std::vector<int> counts_of(const Environment& environment, int size) {
  const char* name = "SLURM_STEP_TASKS_PER_NODE";
  auto text = environment.get(name);
  if (!text) text = environment.get(name = "SLURM_TASKS_PER_NODE");
  if (!text) {
    if (size == 1) return {1};
    contradict(fmt::format("a Slurm step of {} tasks sets no SLURM_STEP_TASKS_PER_NODE", size),
               "start with srun and leave its variables");
  }
  auto counts = expand_task_counts(*text);
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != size)
    contradict(fmt::format("{}={} are {} tasks, but the step has {}", name, *text, sum, size),
               "start with srun and leave its variables");
  return counts;
}

std::vector<std::string> hosts_of(const Environment& environment, std::size_t nodes) {
  const auto list = environment.get("SLURM_STEP_NODELIST");
  if (!list) return {};
  auto hosts = expand_host_list(*list);
  if (hosts.size() != nodes)
    contradict(fmt::format("SLURM_STEP_NODELIST={} names {} hosts, but "
                           "SLURM_STEP_TASKS_PER_NODE gives the tasks of {}",
                           *list, hosts.size(), nodes),
               "start with srun and leave its variables");
  return hosts;
}

}  // namespace

bool in_slurm_shell(const Environment& environment) {
  const auto& process = environment.process();
  if (!environment.has("SLURM_PTY_PORT") || !process.has_terminal) return false;
  return environment.get("SLURM_TASK_PID") != std::to_string(process.pid);
}

std::optional<World> slurm_world(const Environment& environment) {
  const auto step = step_of(environment);
  if (!environment.has("SLURM_PROCID") || !step) return std::nullopt;
  World world;
  world.launcher = "slurm";
  world.rank = *environment.number("SLURM_PROCID");
  world.size = tasks_of(environment);
  require_below("SLURM_PROCID", world.rank, "SLURM_NTASKS", world.size);
  const auto counts = counts_of(environment, world.size);
  world.nodes = static_cast<int>(counts.size());
  world.node = world.nodes == 1 ? 0 : required(environment, "SLURM_NODEID", 0);
  require_below("SLURM_NODEID", world.node, "the number of nodes", world.nodes);
  world.local_size = counts[static_cast<std::size_t>(world.node)];
  world.local_rank = world.size == 1 ? 0 : required(environment, "SLURM_LOCALID", 0);
  require_below("SLURM_LOCALID", world.local_rank, "the tasks of this node", world.local_size);
  world.hosts = hosts_of(environment, counts.size());
  world.restart = environment.number("SLURM_RESTART_COUNT").value_or(0);
  // Job numbers are those of one cluster; sites share a home over several.
  world.run_id = file_name_of(
      fmt::format("slurm-{}-{}.{}-{}", environment.get("SLURM_CLUSTER_NAME").value_or("cluster"),
                  environment.get("SLURM_JOB_ID").value_or("0"), *step, world.restart));
  return world;
}

}  // namespace troupe

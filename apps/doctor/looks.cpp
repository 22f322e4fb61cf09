// What the checks look at, for a report that has nothing to complain about.
#include <fmt/format.h>

#include <algorithm>

#include "apps/doctor/checks.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::string world_text(const Machine& machine) {
  if (!machine.world) return "this process alone";
  return fmt::format("rank {} of {} on {} node{}, started by {}", machine.world->rank,
                     machine.world->size, machine.world->nodes,
                     machine.world->nodes == 1 ? "" : "s", machine.world->launcher);
}

std::string interfaces_text(const Machine& machine) {
  std::vector<std::string> usable;
  for (const auto& interface : machine.interfaces)
    if (interface.up && interface.has_address) usable.push_back(interface.name);
  return usable.empty() ? "none is up" : fmt::format("{} up", listed(usable, 6));
}

std::string cores_text(const Machine& machine, const Demands& demands) {
  std::string cores = fmt::format("{} for this process", machine.cores);
  if (!demands.known) return cores;
  return fmt::format("{}, {} stage{} of {} thread{}", cores, demands.spread.work(),
                     demands.spread.work() == 1 ? "" : "s", demands.intra_op_threads,
                     demands.intra_op_threads == 1 ? "" : "s");
}

std::string limits_text(const Machine& machine) {
  const auto amount = [](std::uint64_t value, const char* unit) {
    return value == Machine::unlimited ? "any number of" + std::string(unit)
                                       : fmt::format("{}{}", value, unit);
  };
  return amount(machine.open_files, " open files");
}

}  // namespace

std::vector<Look> looked_at(const Machine& machine, const Demands& demands) {
  const int gpus = machine.reserved_gpus();
  return {{"world", world_text(machine)},
          {"interfaces", interfaces_text(machine)},
          {"architecture", machine.architecture},
          {"limits", limits_text(machine)},
          {"contradictory variables", fmt::format("{} variables", machine.environment.size())},
          {"misspelt variable", "of NCCL, libfabric, OpenMP, CUDA, PyTorch, MPI, Slurm, Troupe"},
          {"unused GPUs", gpus == 0 ? "none is reserved" : fmt::format("{} reserved", gpus)},
          {"cores", cores_text(machine, demands)},
          {"folders", fmt::format("{} of temporary files and caches", machine.folders.size())}};
}

}  // namespace troupe

// What the checks examined, for a report without findings.
#include <fmt/format.h>

#include <algorithm>

#include "apps/doctor/checks.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::string world_text(const Machine& machine) {
  if (machine.world_error) return "the variables are wrong";
  if (!machine.world) return "this process alone";
  return fmt::format("rank {} of {} on {}, started by {}", machine.world->rank, machine.world->size,
                     counted(machine.world->nodes, "node"), machine.world->launcher);
}

std::string interfaces_text(const Machine& machine) {
  const std::vector<std::string> usable = usable_interfaces(machine);
  return usable.empty() ? "none is up" : fmt::format("{} up", listed(usable, 6));
}

std::string cores_text(const Machine& machine, const Demands& demands) {
  std::string cores = fmt::format("{} for this process", machine.cores);
  if (!demands.known) return cores;
  const std::int64_t stages = stages_of_process(machine, demands);
  return fmt::format("{}, {} with {}", cores, counted(stages, "stage"),
                     counted(intra_op_threads(machine, demands), "thread"));
}

std::string limits_text(const Machine& machine) {
  const auto amount = [](std::uint64_t value, const char* unit) {
    return value == Machine::unlimited ? "unlimited" + std::string(unit)
                                       : fmt::format("{}{}", value, unit);
  };
  return amount(machine.open_files, " open files");
}

std::string folders_text(const Machine& machine) {
  std::vector<std::string> paths;
  for (const auto& folder : machine.folders) paths.push_back(folder.path);
  return "for temporary files and caches: " + listed(paths, 4);
}

/// The GPU that a run would use, and those that are allocated.
std::string gpus_text(const Machine& machine, const Demands& demands) {
  const int allocated = machine.allocated_gpus();
  std::string given =
      allocated == 0 ? "none allocated by a job" : fmt::format("{} allocated", allocated);
  if (!machine.cuda && machine.cuda_error && machine.cuda_error->code() == ErrorCode::io)
    return fmt::format("no CUDA in this build; {}; {}",
                       machine.nvidia_driver.empty() ? "no NVIDIA driver"
                                                     : "NVIDIA driver " + machine.nvidia_driver,
                       given);
  const bool several = machine.world && machine.world->size > 1;
  if (demands.device == DeviceChoice::cpu || !machine.cuda || machine.cuda->gpus.empty() ||
      (several && !computes_on_gpu(machine, demands)))
    return given;
  const GpuSurvey::Gpu& gpu = machine.cuda->gpus.front();
  return fmt::format("{} (sm_{}, {} GiB); {}", gpu.name, gpu.architecture, gpu.memory_bytes >> 30,
                     given);
}

}  // namespace

std::vector<Observation> observations(const Machine& machine, const Demands& demands) {
  return {{"world", world_text(machine)},
          {"interfaces", interfaces_text(machine)},
          {"architecture", machine.architecture},
          {"limits", limits_text(machine)},
          {"variables", fmt::format("{} checked", machine.environment.size()), ", no findings"},
          {"GPUs", gpus_text(machine, demands)},
          {"cores", cores_text(machine, demands)},
          {"folders", folders_text(machine)}};
}

}  // namespace troupe

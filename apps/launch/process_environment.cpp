#include "apps/launch/process_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/print.h"

namespace troupe {

Environment::Variables process_environment(Environment::Variables inherited,
                                           const LaunchOptions& options, const Place& place,
                                           int local_rank, const ProcessCpus& cpus,
                                           const std::string& error_file) {
  auto& variables = inherited;
  const auto set = [&](const char* name, const auto& value) {
    variables[name] = fmt::format("{}", value);
  };
  const int rank = place.first_rank + local_rank;
  set("RANK", rank);
  set("WORLD_SIZE", place.size);
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", options.processes);
  set("GROUP_RANK", place.node);
  set("GROUP_WORLD_SIZE", place.nodes);
  set("ROLE_NAME", options.role);
  set("ROLE_RANK", rank);
  set("ROLE_WORLD_SIZE", place.size);
  set("MASTER_ADDR", place.master_address);
  set("MASTER_PORT", place.master_port);
  set("TORCHELASTIC_RUN_ID", options.run_id);
  set("TORCHELASTIC_RESTART_COUNT", 0);
  set("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  // The launcher serves no store at MASTER_PORT: rank 0 of the processes does, if they want one.
  set("TORCHELASTIC_USE_AGENT_STORE", "False");
  set("TORCHELASTIC_ERROR_FILE", error_file);
  variables.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  variables.try_emplace("OMP_NUM_THREADS", std::to_string(cpus.threads));
  set("TROUPE_RUN_ID", place.run_id);
  set("TROUPE_LAUNCHER", fmt::format("{} launch", program_name()));
  variables["TROUPE_CPUS"] = fmt::format("{}", fmt::join(cpus.own, ","));
  set("TROUPE_NODE_CPUS", cpus.of_node);
  if (!place.coordinator.empty()) set("TROUPE_COORDINATOR", place.coordinator);
  if (!place.job_key.empty()) set("TROUPE_JOB_KEY", place.job_key);
  return variables;
}

}  // namespace troupe

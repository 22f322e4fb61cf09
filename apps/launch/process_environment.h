#pragma once
#include <string>

#include "apps/launch/node_group.h"
#include "runtime/world/environment.h"

namespace troupe {

/// The variables of one process: the launcher's own, torchrun's, and those that Troupe's processes
/// find each other by. OMP_NUM_THREADS is set to `threads` where it is not set.
Environment::Variables process_environment(Environment::Variables inherited,
                                           const LaunchOptions& options, const Place& place,
                                           int local_rank, const std::vector<int>& cpus,
                                           int threads, const std::string& error_file);

}  // namespace troupe

#pragma once
#include <map>
#include <string>

#include "apps/launch/node_group.h"

namespace troupe {

/// The variables of one process: the launcher's own, torchrun's, and those that Troupe's processes
/// find each other by. OMP_NUM_THREADS is set to `threads` where it is not set.
std::map<std::string, std::string> process_environment(std::map<std::string, std::string> inherited,
                                                       const LaunchOptions& options,
                                                       const Place& place, int local_rank,
                                                       const std::vector<int>& cpus, int threads,
                                                       const std::string& error_file);

}  // namespace troupe

#pragma once
#include <string>
#include <vector>

#include "apps/launch/node_group.h"
#include "runtime/world/environment.h"

namespace troupe {

/// What a process may compute on.
struct ProcessCpus {
  std::vector<int> own;
  int threads = 1;          ///< to start
  std::size_t of_node = 1;  ///< that all processes of the host have together
};

/// The variables of one process: the launcher's own, torchrun's, and those that Troupe's processes
/// find each other by. OMP_NUM_THREADS is set to the threads where it is not set.
Environment::Variables process_environment(Environment::Variables inherited,
                                           const LaunchOptions& options, const Place& place,
                                           int local_rank, const ProcessCpus& cpus,
                                           const std::string& error_file);

}  // namespace troupe

#pragma once
#include <string>
#include <vector>

#include "apps/launch/node_group.h"
#include "runtime/world/environment.h"

namespace troupe {

/// The cores of a process.
struct ProcessCpus {
  std::vector<int> own;
  int threads = 1;          ///< to start
  std::size_t of_node = 1;  ///< that all processes of the host have together
};

/// The variables of one process: the launcher's own, torchrun's, and those by which Troupe's
/// processes connect. OMP_NUM_THREADS is set to the threads if it is not set.
Environment::Variables process_environment(Environment::Variables inherited,
                                           const LaunchOptions& options, const Place& place,
                                           int local_rank, const ProcessCpus& cpus,
                                           const std::string& error_file);

}  // namespace troupe

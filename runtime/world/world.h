#pragma once
// The rank of a process among those that a launcher started, from the launcher's environment
// variables. This needs no communication between processes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/world/environment.h"

namespace troupe {

/// Rank and size of one process's world.
struct World {
  int rank = 0;        ///< 0 .. size - 1, a different one for each process
  int size = 1;        ///< number of processes
  int local_rank = 0;  ///< 0 .. local_size - 1 among the processes of this node
  int local_size = 1;  ///< processes on this node; nodes may differ
  int node = 0;        ///< 0 .. nodes - 1; -1 if the launcher does not say
  int nodes = 1;       ///< -1 if the launcher does not say

  std::string launcher;  ///< TROUPE_LAUNCHER, "torchrun", "slurm", "openmpi" or "pmix"

  /// Job, step and restart: equal in every process of one start of the job and, if the launcher
  /// names its jobs, in no other. Letters, digits, `.`, `-` and `_` only, so it can name a file.
  std::string run_id;
  int restart = 0;  ///< restarts of this job by the launcher or the queue

  std::vector<std::string> hosts;  ///< in the order of nodes; empty if the launcher does not say
  std::string master_address;      ///< MASTER_ADDR, or the first host; empty if both are unknown
  std::uint16_t master_port = 0;   ///< MASTER_PORT; 0 if it is not set
};

/// A name made of letters, digits, `.`, `-` and `_`, of at most 129 characters, that does not
/// begin with a dot; other characters become `_`.
std::string file_name_of(std::string_view text);

/// World::run_id of the processes that a launcher starts with TROUPE_RUN_ID=`run`.
std::string run_id_of(std::string_view run, int restart);

/// The world of the innermost launcher that started this process, or nothing if none did: a shell
/// of an interactive job (`salloc`, `srun --pty bash`) and the script of a batch job are not part
/// of a world.
///
/// In this order: RANK and WORLD_SIZE as `troupe launch` and torchrun set them; OMPI_COMM_WORLD_*,
/// which mpirun sets inside Slurm's steps as well, where SLURM_PROCID then counts mpirun's own
/// daemons; a step of Slurm's srun; PMIX_* and PMI_*.
///
/// Throws Error (usage) with variable, value and remedy if variables are malformed, missing or
/// contradictory. A guessed rank could make the other processes wait for a rank that does not
/// exist.
std::optional<World> world_from_environment(const Environment& environment);

}  // namespace troupe

#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/schedule.h"
#include "runtime/flow/run.h"

namespace troupe {

/// The properties of a run that run_summary needs in addition to its report.
struct RunShape {
  std::int64_t micro_batches = 1;  ///< of a step, of one replica
  std::int64_t batch_size = 1;     ///< of a step, of one replica
  std::int64_t replicas = 1;
  int processes = 1;
  bool on_gpu = false;      ///< all stages compute on one GPU, whatever threads there are
  int actor_threads = 1;    ///< of each process
  int idle_cores = 0;       ///< that a process may use beyond its actors' and kernels' threads
  int unused_cores = 0;     ///< of them, those that parallel.intra_op_threads=auto would use
  int workers = 1;          ///< of the loader
  bool batch_norms = true;  ///< whether the model has any
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  std::vector<std::size_t> partition;
  bool partition_by_hand = false;
};

/// A summary of the time table: how much of the time the stages computed, which stage is the
/// bottleneck, and which option may help (threads, data, partition, micro-batches). Empty for a run
/// that has no stages or is too short.
std::string run_summary(const RunReport& report, const RunShape& shape);

/// A sentence if the stages of this process, which compute on the CPU with at most `cores`, needed
/// much less processor time than the time table says that they computed: other programs had the
/// cores. Empty otherwise, and for a run that is too short.
std::string shared_cores_sentence(const RunReport& report, std::uint32_t process,
                                  std::chrono::duration<double> processor_time, int cores);

}  // namespace troupe

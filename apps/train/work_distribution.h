#pragma once
// How stages and replicas are distributed over processes, and options that distribute them evenly.

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The limits of a model and its batches.
struct WorkLimits {
  std::int64_t pipeline = 1, data = 1;  ///< as they are
  std::int64_t blocks = 1;              ///< stages that the model can be partitioned into
  std::int64_t micro_batches = 1;       ///< the most replicas
  std::int64_t batch_size = 1;

  /// Stages of all replicas, the most processes of a run. Any number of processes up to this
  /// computes bitwise identical weights.
  std::int64_t total_stages() const { return pipeline * data; }
};

/// "parallel.pipeline 2 × parallel.data 4 allows at most 8 processes".
std::string work_words(const WorkLimits& limits);

/// "8 stages over 3 processes: 3 in some, 2 in others"; empty if all have the same number.
std::string uneven_words(std::int64_t processes, const WorkLimits& limits);

/// "5 micro-batches over 2 replicas: 3 in some, 2 in others"; empty if all have the same number.
std::string uneven_micro_batches(const WorkLimits& limits);

/// The smallest number of processes, from `processes` on, that have the same number of stages.
std::int64_t even_processes(std::int64_t processes, const WorkLimits& limits);

/// Assignments that give each process the same number of stages: "parallel.data=2",
/// "parallel.pipeline=4", "parallel.data=8 train.micro_batches=8". Replicas come first, since they
/// keep the partition. Empty if there is none.
std::vector<std::string> distributions_over(std::int64_t processes, const WorkLimits& limits);

/// The same for a command line: "-r parallel.data=2, or -r parallel.pipeline=4".
std::string distribution_words(std::int64_t processes, const WorkLimits& limits);

/// ", or give " and these; empty if there is no such assignment.
std::string or_give(std::int64_t processes, const WorkLimits& limits);

}  // namespace troupe

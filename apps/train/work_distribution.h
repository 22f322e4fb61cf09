#pragma once
// How many processes a run has work for, and which options give them work of one size.

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What a model and its batches allow.
struct WorkLimits {
  std::int64_t pipeline = 1, data = 1;  ///< as they are
  std::int64_t blocks = 1;              ///< stages that the model can be partitioned into
  std::int64_t micro_batches = 1;       ///< replicas that a step has work for
  std::int64_t batch_size = 1;

  /// Stages of all replicas: with more processes than these some would have nothing to do. Any
  /// number up to this runs, and computes the same bits.
  std::int64_t total_stages() const { return pipeline * data; }
};

/// "parallel.pipeline 2 × parallel.data 4 is work for 8".
std::string work_words(const WorkLimits& limits);

/// "8 stages over 3 processes: 3 in some, 2 in others"; empty where all have as many.
std::string uneven_words(std::int64_t processes, const WorkLimits& limits);

/// "5 micro-batches over 2 replicas: 3 in some, 2 in others"; empty where all have as many.
std::string uneven_micro_batches(const WorkLimits& limits);

/// The smallest number of processes from `processes` on that all have as many stages.
std::int64_t even_processes(std::int64_t processes, const WorkLimits& limits);

/// Assignments that make a whole number of stages for each process: "parallel.data=2",
/// "parallel.pipeline=4", "parallel.data=8 train.micro_batches=8". Replicas first: they change
/// nothing about the partition. Empty where neither is enough.
std::vector<std::string> distributions_over(std::int64_t processes, const WorkLimits& limits);

/// The same as words for a command line: "-r parallel.data=2, or -r parallel.pipeline=4".
std::string distribution_words(std::int64_t processes, const WorkLimits& limits);

/// ", or give " and these; empty where there is no such assignment.
std::string or_give(std::int64_t processes, const WorkLimits& limits);

}  // namespace troupe

#pragma once
// Which options give several processes work of one size.

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What a model and its batches allow.
struct SpreadLimits {
  std::int64_t pipeline = 1, data = 1;  ///< as they are
  std::int64_t blocks = 1;              ///< stages that the model can be cut into
  std::int64_t micro_batches = 1;       ///< replicas that a step has work for
  std::int64_t batch_size = 1;
};

/// Assignments that make a whole number of stages for each process: "parallel.data=2",
/// "parallel.pipeline=4", "parallel.data=8 train.micro_batches=8". Replicas first: they change
/// nothing about the cut. Empty where neither is enough.
std::vector<std::string> spreads_over(std::int64_t processes, const SpreadLimits& limits);

/// The same as words for a command line: "-r parallel.data=2, or -r parallel.pipeline=4".
std::string spread_words(std::int64_t processes, const SpreadLimits& limits);

}  // namespace troupe

#pragma once
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ops/models/model.h"
#include "ops/nn/state.h"

namespace troupe {

/// The cost of one block of a model for one micro-batch on this machine.
struct BlockCosts {
  std::string name;
  std::int64_t parameters = 0;
  std::size_t state_bytes = 0;  ///< weights and buffers, without optimizer state
  std::size_t output_bytes = 0;
  std::size_t widened_bytes = 0;   ///< of the output in the type that a loss computes in
  std::size_t saved_bytes = 0;     ///< held between forward and backward
  std::size_t working_bytes = 0;   ///< most memory beyond that while it computes
  std::size_t deferred_bytes = 0;  ///< held while its weight gradient is deferred
  /// What its layers keep from one pass to the next (LastingScope), such as weights in another
  /// order or type.
  std::size_t kept_bytes = 0;
  /// What its kernels borrow while they run (Backend::take_scratch), and the most of it.
  std::set<std::size_t> scratch_sizes;
  std::size_t scratch_bytes() const { return scratch_sizes.empty() ? 0 : *scratch_sizes.rbegin(); }
  std::chrono::nanoseconds forward{0}, backward{0};
  /// The time of the first half of a split backward; included in `backward`.
  std::chrono::nanoseconds input_gradient{0};
};

/// Scales the costs that were measured with `measured` samples to `samples`; those of the weights
/// and their gradients stay, as do the first `fixed_scratch` bytes of each scratch size.
void scale_samples(BlockCosts& costs, std::int64_t samples, std::int64_t measured,
                   std::size_t fixed_scratch = 0);

/// Runs each block forward and backward on one micro-batch of `samples` and measures it: bytes as
/// the median of the allocator's counters, times as the best of `repetitions`. It does not measure
/// the first run, which prepares kernels. Each repetition runs all blocks, so that other load on
/// the machine affects all of them. It runs blocks with 64 MiB of weights at a time, so that no
/// process holds a whole large model. Every second repetition runs the halves of the backward pass
/// separately, so there are at least two repetitions. After two repetitions, it ends when three
/// seconds have passed. Computes on a stream like the given one. What `freezes` freezes, beside the
/// model's frozen parameters, costs no weight gradient, and what comes before all that is trained
/// no backward pass.
std::vector<BlockCosts> measure_blocks(const ModelSource& model, const SampleSpec& sample,
                                       DType dtype, Stream like, std::int64_t samples,
                                       int repetitions, const Freezes& freezes = {});

/// Partitions blocks of these costs into `parts` sequences of consecutive blocks, each of at least
/// one, so that the largest cost of a sequence is minimal. Returns the number of blocks of each.
std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts);

/// Checks a partition that the user gave. Throws Error{bad_options} naming the counts.
void check_partition(const std::vector<std::size_t>& partition, std::size_t blocks);

}  // namespace troupe

#pragma once
#include <cstdint>

namespace troupe {

struct SamplerOptions;

/// The steps, epochs and evaluations of a run as a pure function of the step.
struct Timeline {
  std::uint32_t steps = 0;  ///< of the whole run
  std::uint32_t steps_per_epoch = 1;
  bool evaluates = true;    ///< evaluate after each epoch and at the end
  std::uint32_t first = 0;  ///< committed steps when this process began
  /// Evaluate before the first step, because the run was interrupted before the evaluation after
  /// step first - 1. Only if evaluates_after(first - 1).
  bool evaluates_first = false;

  std::uint32_t epoch(std::uint32_t step) const { return step / steps_per_epoch; }
  bool ends_epoch(std::uint32_t step) const {
    return (step + 1) % steps_per_epoch == 0 || step + 1 == steps;
  }
  bool evaluates_after(std::uint32_t step) const { return evaluates && ends_epoch(step); }
};

/// The batches in this number of epochs. Throws Error{bad_options} as Sampler does, and for a
/// number of epochs below 1 or above 1,000,000.
std::int64_t batches_in(const SamplerOptions& batches, std::int64_t epochs);

/// A step for each batch in `epochs` epochs, but at most `max_steps`; 0: no limit. Throws as
/// batches_in, and for more than 2^32 - 1 steps, the largest number in a message.
Timeline timeline_of(const SamplerOptions& batches, std::int64_t epochs,
                     std::int64_t max_steps = 0);

/// The global micro-batches of `replica` in a step: [replica * micro_batches / replicas,
/// (replica + group) * micro_batches / replicas). With a group above 1, those of so many
/// neighbouring replicas, of which `replica` is the first.
struct MicroBatchRange {
  std::uint32_t first = 0, last = 0;
};
constexpr MicroBatchRange micro_batch_range(std::uint32_t micro_batches, std::uint32_t replica,
                                            std::uint32_t replicas, std::uint32_t group = 1) {
  const auto edge = [&](std::uint64_t r) {
    return static_cast<std::uint32_t>(r * micro_batches / replicas);
  };
  return {edge(replica), edge(replica + group)};
}

}  // namespace troupe

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
  /// Evaluate before the first step, because the previous run ended before the evaluation after
  /// step first - 1. Only if evaluates_after(first - 1).
  bool evaluates_first = false;

  std::uint32_t epoch(std::uint32_t step) const { return step / steps_per_epoch; }
  bool ends_epoch(std::uint32_t step) const {
    return (step + 1) % steps_per_epoch == 0 || step + 1 == steps;
  }
  bool evaluates_after(std::uint32_t step) const { return evaluates && ends_epoch(step); }
};

/// Converts a number of steps to the type that messages carry. Throws Error{bad_options} if the
/// number is negative or does not fit.
std::uint32_t checked_steps(std::int64_t steps);

/// `epochs` whole epochs of a sampler's batches. Throws Error{bad_options} as Sampler does.
Timeline timeline_of(const SamplerOptions& batches, std::int64_t epochs);

/// The global micro-batches of replica r of d in a step of m, [r m / d, (r + 1) m / d); or those of
/// `group` neighbouring replicas, of which r is the first.
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

#pragma once
// The samples of each micro-batch: a pure function of the options and the step. So a run that is
// resumed at any step, on any number of replicas and workers, uses the same samples.

#include <cstdint>
#include <vector>

#include "runtime/flow/header.h"

namespace troupe {

struct SamplerOptions {
  std::uint64_t seed = 1;
  std::int64_t samples = 0;        ///< in the data set
  std::int64_t batch_size = 64;    ///< of one optimizer step, over all replicas
  std::int64_t micro_batches = 1;  ///< of one batch, over all replicas
  std::int64_t replicas = 1;
  bool shuffle = true;    ///< a new order in each epoch; false: the stored order
  bool drop_last = true;  ///< leave out the samples that do not fill a batch
};

/// The samples of one micro-batch, and the header of its messages.
struct MicroBatchSamples {
  Header header;
  std::int64_t epoch = 0;              ///< passes over the data before this one
  std::vector<std::uint32_t> samples;  ///< indices into the data set; never empty

  friend bool operator==(const MicroBatchSamples&, const MicroBatchSamples&) = default;
};

/// The order in which an epoch visits the samples: a permutation of [0, samples).
///
/// Fisher-Yates from the back (R. Durstenfeld, "Algorithm 235: Random permutation", CACM 7, 1964)
/// with Philox numbers keyed by (seed, epoch); about 1 ms for 60,000 samples.
std::vector<std::uint32_t> epoch_order(const SamplerOptions& options, std::int64_t epoch);

/// Divides epochs into batches and batches into micro-batches.
///
/// A batch of n samples has min(micro_batches, n) micro-batches. Their sizes differ by one at most,
/// the larger ones first, as in numpy.array_split; none is empty. A replica takes those of
/// micro_batch_range (actors/timeline.h), so it has fewer of a short last batch, or none. One
/// thread at a time uses a sampler, which keeps the order of one epoch.
class Sampler {
 public:
  /// Throws Error{bad_options} if the numbers make no batch.
  explicit Sampler(const SamplerOptions& options);

  /// For evaluation: every sample once, in stored order. A step is a batch of one micro-batch,
  /// which has the size of one in training: the order of a library's sums may depend on it.
  static Sampler for_evaluation(std::int64_t samples, const SamplerOptions& training);

  const SamplerOptions& options() const { return options_; }
  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  std::int64_t batch_samples(std::int64_t batch) const;  ///< of batch `batch` of an epoch
  std::int64_t micro_batch_count(
      std::int64_t batch) const;  ///< of batch `batch`, over all replicas

  /// The micro-batches of a replica in a step of the run, in ascending order.
  std::vector<MicroBatchSamples> micro_batches(std::int64_t step, std::int64_t replica);

 private:
  SamplerOptions options_;
  std::int64_t batches_per_epoch_ = 0;
  std::int64_t ordered_epoch_ = -1;
  std::vector<std::uint32_t> order_;
};

}  // namespace troupe

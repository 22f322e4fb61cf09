#pragma once
// Which samples make up which micro-batch: a pure function of the options and the step, so that a
// run resumed at any step, on any number of replicas and workers, sees the same samples.

#include <cstdint>
#include <vector>

namespace troupe {

struct SamplerOptions {
  std::uint64_t seed = 1;
  std::int64_t samples = 0;        ///< in the data set
  std::int64_t batch_size = 64;    ///< of one optimizer step, over all replicas
  std::int64_t micro_batches = 1;  ///< of one batch, over all replicas
  std::int64_t replicas = 1;
  bool shuffle = true;    ///< another order each epoch; false: as stored
  bool drop_last = true;  ///< leave out the samples that do not fill a batch
};

/// The samples of one micro-batch, and where it stands. A value: safe to hand to another thread.
struct MicroBatchSamples {
  std::int64_t step = 0;               ///< batches since the start of the run
  std::int64_t epoch = 0;              ///< whole passes before this one
  std::int64_t batch = 0;              ///< within the epoch
  std::int64_t micro_batch = 0;        ///< global index within the batch, in [0, micro_batches)
  std::int64_t micro_batches = 0;      ///< of this batch, over all replicas
  std::int64_t batch_samples = 0;      ///< of this batch, over all replicas
  std::vector<std::uint32_t> samples;  ///< indices into the data set; never empty

  friend bool operator==(const MicroBatchSamples&, const MicroBatchSamples&) = default;
};

/// The order in which an epoch visits the samples: a permutation of [0, samples).
///
/// Fisher-Yates from the back (R. Durstenfeld, "Algorithm 235: Random permutation", CACM 7, 1964)
/// with Philox numbers keyed by (seed, epoch); about 1 ms for 60,000 samples.
std::vector<std::uint32_t> epoch_order(const SamplerOptions& options, std::int64_t epoch);

/// Cuts epochs into batches and batches into micro-batches.
///
/// A batch of n samples has min(micro_batches, n) micro-batches whose sizes differ by at most one,
/// the larger ones first (as numpy.array_split): none is empty. A replica takes those of
/// micro_batch_range (actors/timeline.h), so a short last batch gives it fewer of them, or none.
/// Keeps the order of one epoch; owned by one thread.
class Sampler {
 public:
  /// Throws Error (bad_options) where the numbers cannot make one batch.
  explicit Sampler(const SamplerOptions& options);

  /// Every sample once, in stored order: for counting a test set. Steps count batches.
  static Sampler for_evaluation(std::int64_t samples, std::int64_t batch_size,
                                std::int64_t micro_batches, std::int64_t replicas);

  const SamplerOptions& options() const { return options_; }
  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  std::int64_t batch_samples(std::int64_t batch) const;  ///< of batch `batch` of an epoch
  std::int64_t micro_batches(std::int64_t batch) const;  ///< of batch `batch`, over all replicas

  /// What replica `replica` works on in step `step` of the run, in ascending micro-batch order.
  std::vector<MicroBatchSamples> plan(std::int64_t step, std::int64_t replica);

 private:
  SamplerOptions options_;
  std::int64_t batches_per_epoch_ = 0;
  std::int64_t ordered_epoch_ = -1;
  std::vector<std::uint32_t> order_;
};

}  // namespace troupe

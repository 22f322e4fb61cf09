#pragma once
// The sizes of the data that the actors of a pipeline hold and send. The slots of edges and the
// memory bound use them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/pipeline.h"
#include "actors/timeline.h"

namespace troupe {

/// Sizes of a stage for one micro-batch, from the block costs; zero without them.
struct StageBytes {
  std::size_t output = 0;
  std::size_t widened = 0;   ///< the output in the type that a loss computes in
  std::size_t saved = 0;     ///< between forward and backward
  std::size_t working = 0;   ///< most beyond that while it computes
  std::size_t deferred = 0;  ///< between the input half and the weight half of its backward
  std::size_t state = 0;     ///< weights and buffers, of one version
  std::size_t kept = 0;      ///< by its layers, from one pass to the next
};
StageBytes stage_bytes(const PipelineOptions& options, std::size_t stage);

/// A gradient bucket of a stage: the sizes that a micro-batch sends to the reducer of the bucket,
/// and of what the stage sends in a step if the norm of its gradient is needed.
struct BucketBytes {
  std::size_t blocks = 0;      ///< consecutive ones; those of bucket 0 are the stage's last
  std::size_t weights = 0;     ///< of the flat gradient
  std::size_t statistics = 0;  ///< of the stage; with bucket 0
  std::size_t squares = 0;     ///< of the stage, as StageProgram::gradient_squares; with bucket 0
  std::size_t all() const { return weights + statistics; }
};
/// In the order of the backward pass. Needs no block costs.
std::vector<BucketBytes> bucket_bytes(const PipelineOptions& options, std::size_t stage);

std::size_t sample_bytes(const PipelineOptions& options);  ///< as the first stage gets it
std::size_t input_bytes(const PipelineOptions& options);   ///< of one sample for the first layer
std::size_t target_bytes(const PipelineOptions& options);  ///< of one sample
/// What a loader prepares in the CPU's memory of one sample, besides its target: the sample, or its
/// window of a resident image.
std::size_t prepared_bytes(const PipelineOptions& options);
/// Of the images that loaders keep on the device, of all splits; 0 if they are not resident.
std::size_t resident_bytes(const PipelineOptions& options);
/// The slots of an edge from a loader.
std::uint32_t loader_slots(const PipelineOptions& options);
/// Samples of the largest micro-batch.
std::size_t micro_batch_samples(const PipelineOptions& options);
/// Of a batch, those that have one sample more than the others; 0: all have as many.
std::size_t larger_micro_batches(const PipelineOptions& options);

/// The number of consecutive replicas of a stage in each process that has any, in the order of
/// processes. Each such group has its own reducers.
std::vector<std::uint32_t> reducer_shares(const PipelineOptions& options, std::size_t stage);

/// The bytes that a reducer sends to each of the other `reducers` in a step: the receiver's chunk
/// of the sums over its micro-batches `own`, and their statistics.
std::size_t partial_bytes(const PipelineOptions& options, const BucketBytes& bucket,
                          MicroBatchRange own, std::size_t reducers);

}  // namespace troupe

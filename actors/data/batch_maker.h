#pragma once
// From a plan to tensors.

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/data/sampler.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A micro-batch ready for the first stage.
struct Batch {
  Tensor samples;  ///< [n, C, H, W] of the transform's dtype, row-major
  Tensor targets;  ///< i64 [n]
};

/// Gathers and transforms the samples of plans. Without augmentations in the transform it makes
/// evaluation batches. Immutable: `make` may be called from any number of threads.
class BatchMaker {
 public:
  BatchMaker(Dataset dataset, Split split, SampleTransform transform);

  /// A pure function of the plan. Throws Error for damaged files and for samples out of range.
  Batch make(const MicroBatchSamples& plan) const;

 private:
  template <class T>
  void fill(const MicroBatchSamples& plan, const Tensor& source, const Tensor& images) const;

  Dataset dataset_;
  Split split_;
  SampleTransform transform_;
};

}  // namespace troupe

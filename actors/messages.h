#pragma once
// Every message of a training graph, in the order in which a micro-batch meets them. Each travels
// behind a Header (step, purpose, micro-batch, samples); tensors are handles, never copied.

#include <cstddef>
#include <string>
#include <vector>

#include "ops/nn/state.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Loader → first stage (the samples, row-major); stage → next stage; last stage → loss (logits).
struct Activation {
  Tensor tensor;
};

/// Loader → loss: the classes, i64 [samples].
struct Targets {
  Tensor classes;
};

/// Loss → last stage; stage → previous stage.
struct OutputGradient {
  Tensor tensor;
};

/// Loss → monitor: one micro-batch's share of the loss.
struct Score {
  double loss_sum = 0;  ///< over the micro-batch's samples
  std::int64_t correct = 0;
};

/// Stage → reducer: what one micro-batch adds to a step. Flat, in the order of the StateSpec. The
/// gradient is already divided by the samples of the whole step.
struct Gradient {
  Tensor weights;
  Tensor statistics;
};

/// Reducer → every replica of the stage.
struct ReducedGradient {
  Tensor weights;                  ///< summed over all micro-batches in the fixed tree
  std::vector<Tensor> statistics;  ///< one for each micro-batch, in global order
};

/// Stage → checkpoint writer: its committed state; nothing is copied.
struct Snapshot {
  std::size_t stage = 0;
  StatePtr state;
  std::shared_ptr<const StateSpec> spec;
};

}  // namespace troupe

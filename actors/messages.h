#pragma once
// Every message of a training graph, in the order in which a micro-batch passes them. Each travels
// with a Header (step, purpose, micro-batch, samples); tensors are handles and are not copied.
// Those that may leave the process list their members (runtime/flow/wire.h). A message is not
// changed once it is sent: several threads may read it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "actors/gradient_tree.h"
#include "ops/nn/state.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Loader → first stage: samples of any shape and type, row-major; images for a device as bytes
/// (Network::take_pixels). Stage → next stage. Last stage → loss: logits.
struct Activation {
  Tensor tensor;
  static void members(auto& self, auto& visit) { visit(self.tensor); }
};

/// Loader → loss: one target per sample: its class, i64 [samples], or numbers.
struct Targets {
  Tensor tensor;
  Tensor partners;   ///< of mixed samples (actors/data/mix.h)
  double share = 1;  ///< of `tensor` in the loss; `partners` have the rest
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.partners);
    visit(self.share);
  }
};

/// Loss → last stage; stage → previous stage.
struct OutputGradient {
  Tensor tensor;  ///< undefined if neither its stage nor one before is trained
  static void members(auto& self, auto& visit) { visit(self.tensor); }
};

/// Loss → monitor: one micro-batch's share of the loss.
struct Score {
  struct Numbers {
    double loss_sum = 0;                      ///< over the micro-batch's samples
    std::optional<std::int64_t> correct = 0;  ///< none for a loss without accuracy
    static void members(auto& self, auto& visit) {
      visit(self.loss_sum);
      visit(self.correct);
    }
  };
  Tensor totals;     ///< as LossOutput::totals, in the CPU's memory
  Tensor partners;   ///< the totals for Targets::partners of mixed samples
  double share = 1;  ///< as in Targets
  bool has_accuracy = true;

  static Score of(const Numbers& numbers);
  /// Reads the tensors: for the receiver, where they are complete.
  Numbers numbers() const;
  /// Another process gets the numbers themselves: they fit beside the header.
  static void members(auto& self, auto& visit) {
    Numbers numbers = self.numbers();
    visit(numbers);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(self)>>) self = of(numbers);
  }
};

/// Stage → reducer: what one micro-batch adds to a step, for one bucket of the stage's blocks.
/// Flat, in the order of the StateSpec. The gradient is already divided by the samples of the whole
/// step.
struct Gradient {
  Tensor weights;
  Tensor statistics;  ///< of all blocks; with bucket 0
  static void members(auto& self, auto& visit) {
    visit(self.weights);
    visit(self.statistics);
  }
};

/// Reducer → every replica of the stage, with the key of the step in which it is applied. Without
/// weights, there is no sum for this step. With a staleness of s, this is the case in the first s
/// steps of a run, of a resumed run, and after a step that all actors restarted (actors/reducer.h).
struct ReducedGradient {
  Tensor weights;                  ///< summed over all micro-batches in the fixed tree
  std::vector<Tensor> statistics;  ///< one for each micro-batch, in global order; with bucket 0
  std::uint32_t bucket = 0;        ///< of the stage's blocks; 0 is that of the last ones
  static void members(auto& self, auto& visit) {
    visit(self.weights);
    visit(self.statistics);
    visit(self.bucket);
  }
};

/// Stage → gradient norm: the sums of the squares of its reduced gradient, one for each parameter,
/// in the order of the StateSpec; f64, in the CPU's memory.
struct GradientSquares {
  Tensor sums;
  LossScale loss_scale = {};  ///< the gradient was multiplied by it
  static void members(auto& self, auto& visit) {
    visit(self.sums);
    visit(self.loss_scale);
  }
};

/// Gradient norm → every stage, and monitor if losses are scaled.
struct GradientNormOfStep {
  double norm = 0;  ///< 2-norm of the step's gradient over all parameters of the model, not scaled
  LossScale loss_scale = {};  ///< of the step
  static void members(auto& self, auto& visit) {
    visit(self.norm);
    visit(self.loss_scale);
  }
};

/// Monitor → every stage: LearningRateOptions::plateau_factor of the step.
struct RateFactor {
  double factor = 1;
  static void members(auto& self, auto& visit) { visit(self.factor); }
};

/// Reducer → another reducer of the stage: the receiver's chunk of the sums over the sender's
/// micro-batches.
struct PartialGradient {
  std::vector<PartialSum> sums;    ///< the receiver's chunk of each
  std::uint32_t first = 0;         ///< micro-batch of the first of `statistics`
  std::vector<Tensor> statistics;  ///< whole, of each of the sender's micro-batches
  static void members(auto& self, auto& visit) {
    visit(self.sums);
    visit(self.first);
    visit(self.statistics);
  }
};

/// Reducer → the others of the stage: its chunk, summed over all micro-batches.
struct ReducedChunk {
  std::uint32_t reducer = 0;  ///< whose chunk it is
  Tensor weights;
  static void members(auto& self, auto& visit) {
    visit(self.reducer);
    visit(self.weights);
  }
};

/// Stage → checkpoint writer of its process: its committed state; nothing is copied.
struct Snapshot {
  std::size_t stage = 0;
  StatePtr state;
  std::shared_ptr<const StateSpec> spec;
};

/// Shard writer → checkpoint writer: the shards that another process wrote beside the final folder
/// of the checkpoint.
struct WrittenShards {
  std::vector<ShardInfo> shards;
  std::optional<Error> failure;  ///< why there are none
  static void members(auto& self, auto& visit) {
    visit(self.shards);
    visit(self.failure);
  }
};

}  // namespace troupe

#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "actors/gradient_tree.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct ReducerOptions {
  DType dtype = DType::f32;
  Stream stream;
  /// How many replicas each reducer of the stage hears, in their order. One reducer for all of them
  /// where they share a process; else one a process.
  std::vector<std::uint32_t> shares = {1};
  std::uint32_t index = 0;   ///< which of them this is
  std::uint32_t bucket = 0;  ///< of the stage's blocks
};

/// Sums the gradients of a stage's micro-batches for one bucket of its blocks, from all of its
/// replicas, in the fixed tree, and gives the sum back to each of them.
///
/// Several reducers of a stage each sum the micro-batches of their own replicas as far as the tree
/// allows. Then each receives its chunk of what the others have, finishes the tree on it, and sends
/// it to all: a reduce-scatter and an all-gather. Every element is summed in one place, in the
/// order of the tree, so the bits are those of one reducer.
class Reducer final : public Actor {
 public:
  using Options = ReducerOptions;
  explicit Reducer(ReducerOptions options = {});

  Input<Gradient> gradient{this, "gradient"};
  Output<ReducedGradient> reduced{this, "reduced"};
  Input<PartialGradient> partials{this, "partials", Connection::optional};
  Input<ReducedChunk> chunks{this, "chunks", Connection::optional};
  Output<ReducedChunk> chunk{this, "chunk", Connection::optional};
  /// To another reducer of the stage.
  Output<PartialGradient>* partial(std::uint32_t reducer) { return to_.at(reducer).get(); }

  bool ready() const override { return next().has_value(); }
  ActionLabel act() override;
  /// The sums of micro-batches that are done are here alone: without them the step begins again.
  bool needs_whole_step() const override { return true; }
  FiringRules firing_rules() const override;

 private:
  enum class Move : std::uint8_t { gradient, share, partial, sum_chunk, chunk, finish };
  std::optional<Move> next() const;
  void begin_step(const Header& header);
  void take_gradient();
  void share();
  void take_partial();
  void sum_chunk();
  void take_chunk();
  void finish();
  Tensor assembled() const;
  std::size_t others() const { return options_.shares.size() - 1; }
  MicroBatchRange own_range() const;
  bool own_done() const;
  bool can_share() const;

  ReducerOptions options_;
  std::uint32_t first_replica_ = 0, replicas_ = 0;            ///< own first one; all of the stage
  std::vector<std::unique_ptr<Output<PartialGradient>>> to_;  ///< by reducer; null: this one

  /// Of the open step, from its first message on.
  struct Step {
    Header header;
    GradientTree own;    ///< of own replicas, whole tensors
    GradientTree chunk;  ///< of all, this reducer's chunk
    std::uint32_t taken = 0;
    std::vector<Tensor> statistics;  ///< by micro-batch; of bucket 0
    bool shared = false;
    std::vector<Held<PartialGradient>> partials;
    bool chunk_summed = false;
    std::vector<Tensor> chunks;  ///< by reducer
    std::vector<Held<ReducedChunk>> held_chunks;
  };
  std::optional<Step> step_;
};

}  // namespace troupe

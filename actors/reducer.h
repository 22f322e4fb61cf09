#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/gradient_tree.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "runtime/device/own_stream.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct ReducerOptions {
  DType dtype = DType::f32;
  Stream stream;  ///< device, precision and threads of the actor's stream
  /// Replicas per reducer of the stage, in order; there is one reducer per process that has
  /// replicas.
  std::vector<std::uint32_t> shares = {1};
  std::uint32_t index = 0;   ///< which of them this is
  std::uint32_t bucket = 0;  ///< of the stage's blocks
  /// Steps after which a sum is applied; 0: in its own step.
  std::uint32_t staleness = 0;
};

/// Sums the gradients of one bucket of a stage over the micro-batches of all replicas in the fixed
/// tree, and sends the sum to each replica.
///
/// If a stage has several reducers, each sums the micro-batches of its own replicas as far as the
/// tree allows. It then receives its chunk of the sums of the other reducers, completes the tree
/// for this chunk, and sends the result to all reducers: a reduce-scatter and an all-gather. Every
/// element is summed in one place, in the order of the tree, so the bits are those of one reducer.
///
/// With a staleness of s, the sum of step t is sent with the key of step t + s, in which it is
/// applied. Until then the reducer accepts gradients of up to s further steps. A new reducer first
/// sends s empty sums, for the steps that have no earlier sum: the delay tokens of a synchronous
/// dataflow graph (E. A. Lee, D. G. Messerschmitt, "Synchronous data flow", Proc. IEEE 75(9), 1987,
/// section II). If the edges of `reduced` have s + 1 slots, no sum waits for a slot.
///
/// Fails with `internal` for a gradient of a step that is not open, which is a bug in the sender.
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
  DeviceStream* stream() const override { return stream_.device_stream(); }
  /// The sums of the open step exist only here: without them the step starts again.
  bool restarts_step() const override { return true; }
  void restore(const CommittedState& state, std::uint32_t steps) override;
  FiringRules firing_rules() const override;

 private:
  enum class Move : std::uint8_t { delay, gradient, partial, chunk, share, sum_chunk, finish };
  /// A step from its first message until its sum has left.
  struct Step {
    Header header;
    GradientTree own;    ///< sums of whole tensors of this reducer's replicas
    GradientTree chunk;  ///< sums of this reducer's chunk, of all replicas
    std::uint32_t taken = 0;
    std::vector<Tensor> statistics;  ///< by micro-batch; of bucket 0
    bool shared = false;
    std::vector<Held<PartialGradient>> partials;
    bool chunk_summed = false;
    std::vector<Tensor> chunks;  ///< by reducer
    std::vector<Held<ReducedChunk>> held_chunks;
  };
  struct Next {
    Move move;
    std::uint32_t step = 0;
  };
  std::optional<Next> next() const;
  std::optional<Next> next_to_send() const;
  /// The open step that a message belongs to, opened if it is its first.
  Step& open(const Header& header);
  Step opened(const Header& header) const;
  void delay();
  void take_gradient();
  void take_partial();
  void take_chunk();
  void share(Step& step);
  void sum_chunk(Step& step);
  void finish();
  Tensor assembled(const Step& step) const;
  std::size_t others() const { return options_.shares.size() - 1; }
  MicroBatchRange own_range(const Step& step) const;
  bool own_done(const Step& step) const;
  bool can_share() const;
  bool can_sum_chunk(const Step& step) const;
  bool can_finish(const Step& step) const;

  ReducerOptions options_;
  OwnStream stream_;
  std::uint32_t first_replica_ = 0, replicas_ = 0;            ///< own first one; all of the stage
  std::vector<std::unique_ptr<Output<PartialGradient>>> to_;  ///< by reducer; null: this one
  std::map<std::uint32_t, Step> open_;
  std::uint32_t finished_ = 0;  ///< steps whose sums have left
  std::uint32_t delays_ = 0;    ///< empty sums that are still to be sent
};

}  // namespace troupe

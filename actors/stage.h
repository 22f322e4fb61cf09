#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "actors/messages.h"
#include "actors/schedule.h"
#include "actors/stage_program.h"
#include "ops/optim/learning_rate.h"
#include "ops/optim/loss_scale.h"
#include "ops/optim/optimizers.h"
#include "runtime/device/own_stream.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct StageOptions {
  ProgramFactory program;
  /// The state that the program begins with; null: the program's own. The stage drops it at its
  /// first commit, so that it does not stay in memory for as long as the graph. Null inside: the
  /// stage cannot be started.
  std::shared_ptr<StatePtr> starting_state = {};
  StageSchedule schedule;
  std::size_t stage = 0;  ///< position in the pipeline
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;
  std::uint64_t seed = 1;  ///< of random numbers such as dropout's
  LearningRateOptions rate;
  Optimizer optimizer = default_optimizer();
  /// Dynamic or fixed; none: losses are not scaled. Not with staleness.
  std::optional<LossScaleOptions> loss_scale = {};
  bool last = false;  ///< a loss follows; if losses are scaled, it scales what the loss sends
  /// False: nothing before this stage is trained, so its input gradients are sent without a tensor.
  bool trained_before = true;
  /// Steps after which a sum of gradients is applied, as in ReducerOptions; 0: in its own step.
  std::uint32_t staleness = 0;
  /// Micro-batches of a step, over all replicas; used if staleness > 0. A pure function.
  std::function<std::uint32_t(std::uint32_t step)> micro_batches = {};
};

/// A part of the model. Runs micro-batches forward and backward when its schedule and its slots
/// allow it, sends the gradient of each micro-batch to the reducers, and computes the next state
/// from their sums. A backward pass has one action for each bucket: the stage sends the gradient of
/// a bucket before it computes the next one. Where the schedule defers weight gradients and the
/// input gradient has a receiver, the input gradient is an action of its own, before all buckets;
/// other actions may run between. Weights change only at a commit.
///
/// With a staleness of s, the update of step t applies the sum with the key of step t, which is the
/// sum of step t - s. It runs when all micro-batches of this stage in step t have run backward. The
/// stage releases the messages of its last micro-batch only at the commit, so the next incarnation
/// receives them again and can determine when all micro-batches have run backward.
///
/// If losses are scaled, the last stage multiplies the gradients of its outputs by the scale of the
/// step, so all gradients behind it are scaled, and the update divides by it. If the gradient is
/// not finite, the step is skipped, as by PyTorch's GradScaler: it is committed with a lower scale,
/// with the running statistics of its forward passes, and with the weights and the optimizer's
/// state from before.
///
/// Throws Error{bad_options} when it is made with staleness but no micro_batches, with staleness
/// and a loss scale, or with wrong hyper-parameters. Fails with the errors of its program, such as
/// bad_shape.
class Stage final : public Actor {
 public:
  using Options = StageOptions;
  explicit Stage(StageOptions options);

  Input<Activation> input{this, "input"};
  Output<Activation> output{this, "output"};
  Input<OutputGradient> output_gradient{this, "output_gradient"};
  /// The first stage has no edge here: the gradient of the data is not needed.
  Output<OutputGradient> input_gradient{this, "input_gradient", Connection::optional};
  Output<Gradient> gradient{this, "gradient"};      ///< of bucket 0
  Input<ReducedGradient> reduced{this, "reduced"};  ///< one edge per bucket
  /// To and from a GradientNorm, if the optimizer clips by norm or losses are scaled. Of the
  /// replicas, one sends.
  Output<GradientSquares> gradient_squares{this, "gradient_squares", Connection::optional};
  Input<GradientNormOfStep> gradient_norm{this, "gradient_norm", Connection::optional};
  /// From a Monitor, if the schedule of the rate is `plateau`.
  Input<RateFactor> rate_factor{this, "rate_factor", Connection::optional};
  Output<Snapshot> snapshot{this, "snapshot", Connection::optional};

  /// The port of a bucket: `gradient`, "gradient/1", "gradient/2", …
  Output<Gradient>* gradient_of(std::uint32_t bucket) {
    return bucket == 0 ? &gradient : more_gradients_.at(bucket - 1).get();
  }

  bool ready() const override {
    return stale() || can_snapshot() || reduced.ready() || gradient_norm.ready() ||
           rate_factor.ready() || can_send_squares() || next().has_value();
  }
  ActionLabel act() override;
  Waiting waiting() const override;
  DeviceStream* stream() const override { return stream_.device_stream(); }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override;
  void restore(const CommittedState& state, std::uint32_t steps) override;
  std::string refusal(const InputPort& port, const Actor& sender) const override;
  FiringRules firing_rules() const override;

  /// Its blocks, if its program states them.
  const std::optional<ModelPart>& part() const { return options_.program.part; }
  /// The reason why a stage whose first block is `begin` cannot follow one whose blocks end at
  /// `end`; empty if it can.
  static std::string gap_between(std::size_t end, std::size_t begin);
  /// The current state of forward and backward passes.
  const StatePtr& state() { return program().state(); }

 private:
  /// A micro-batch between forward and backward, with the slot that its input occupies.
  struct InFlight {
    Held<Activation> input;
    std::unique_ptr<StageProgram::Saved> saved;
  };

  /// A micro-batch in its backward pass: the input half or some buckets are complete.
  struct GoingBack {
    InFlight forward;
    Held<OutputGradient> grad;
    Tensor gradient;           ///< of the outputs; in the last stage times the loss scale
    std::uint32_t bucket = 0;  ///< the next one
  };

  /// The number of gradient buckets.
  std::uint32_t buckets() const { return options_.program.buckets; }
  std::optional<StageAction> next() const;
  StageView view() const;
  bool splits_backward() const;
  bool has_gradient_slots() const;
  bool can_begin_backward() const;
  bool can_continue_backward() const;
  std::uint32_t in_flight() const;
  bool has_sums() const;  ///< of all buckets, for the open step
  bool needs_norm() const { return options_.optimizer.clip_norm() > 0 || options_.loss_scale; }
  bool can_send_squares() const;
  ActionLabel send_squares();
  bool can_update() const;
  /// One past the last of its micro-batches in a step of `micro_batches`.
  std::uint32_t own_end(std::uint32_t micro_batches) const;
  bool all_went_back() const;
  /// Whether a message belongs to a committed step. A sender repeats such messages for a new
  /// incarnation.
  bool is_past(const MessageKey& key) const;
  bool stale() const;  ///< such a message waits
  ActionLabel discard();
  bool can_snapshot() const { return !pending_snapshots_.empty() && snapshot.has_slot(); }
  /// Releases the micro-batches of a committed step that a replacement was still repeating.
  void abandon_step();
  void ask_snapshot(const Commit& commit);
  ActionLabel send_snapshot();
  /// Made when it is first needed: a graph's prototype of this actor needs none.
  StageProgram& program();
  ActionLabel forward();
  ActionLabel backward();
  ActionLabel weight_gradient();
  /// Computes and sends the next bucket of the first micro-batch in its backward pass.
  void continue_backward();
  void end_backward();
  ActionLabel evaluate();
  /// Takes the sums, the norm and the factor that have arrived; they keep their slots until the
  /// commit.
  MessageKey collect();
  ActionLabel update();
  StatePtr starting_state() const;
  /// Of the open step; 1 if losses are not scaled.
  LossScale loss_scale();
  Tensor scaled(const Tensor& gradient);
  /// The sums of the open step, by bucket; none if there is no gradient yet (ReducedGradient).
  std::vector<Tensor> gradients() const;

  StageOptions options_;
  OwnStream stream_;
  std::unique_ptr<StageProgram> program_;
  StatePtr resumed_;        ///< with which the program begins
  std::uint32_t step_ = 0;  ///< the open step = number of committed steps
  std::vector<std::unique_ptr<Output<Gradient>>> more_gradients_;  ///< of buckets 1, 2, …
  std::map<std::uint32_t, InFlight> in_flight_;
  std::deque<GoingBack> going_back_;
  std::uint32_t forwarded_ = 0;  ///< one past the last micro-batch forwarded in this step
  std::uint32_t completed_ = 0;  ///< one past the last that completed its backward pass
  /// The last own micro-batch of the step, with staleness.
  std::optional<std::pair<Held<Activation>, Held<OutputGradient>>> held_back_;
  std::map<std::uint32_t, std::vector<Held<ReducedGradient>>> sums_;  ///< by step
  bool squares_sent_ = false;                                         ///< for the open step
  std::map<std::uint32_t, Held<GradientNormOfStep>> norms_;           ///< by step
  /// By step: that of the next may come before the commit of the open one.
  std::map<std::uint32_t, Held<RateFactor>> factors_;
  StatePtr next_state_;  ///< voted for, not yet committed
  /// The snapshots that commits requested, oldest first. Each is sent when the writer has a free
  /// slot: only after failures of the writer does it have none.
  std::deque<std::pair<std::uint32_t, StatePtr>> pending_snapshots_;
  bool closed_ = false;  ///< the last commit is made
};

}  // namespace troupe

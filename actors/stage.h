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
#include "ops/optim/optimizers.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct StageOptions {
  ProgramFactory program;
  StageSchedule schedule;
  std::size_t stage = 0;      ///< position in the pipeline
  std::uint32_t buckets = 1;  ///< of its gradients; as many as the program's
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;
  std::uint64_t seed = 1;  ///< of random numbers such as dropout's
  LearningRateOptions rate;
  Optimizer optimizer = default_optimizer();
  /// Steps after which a sum of gradients is applied, as the reducers have it; 0: in its own.
  std::uint32_t staleness = 0;
  /// Micro-batches of a step, over all replicas; asked where staleness > 0. A pure function.
  std::function<std::uint32_t(std::uint32_t step)> micro_batches = {};
};

/// A part of the model. Runs micro-batches forward and backward as its schedule and its slots
/// allow, sends each one's gradient to the reducers, and computes the next state from their sums. A
/// backward has one action for each bucket: the gradient of a bucket leaves while the next one
/// runs. Where the schedule defers weight gradients and the input gradient has a receiver, the
/// input gradient is an action of its own, before all buckets; other actions may run between.
/// Weights change at a commit only.
///
/// With a staleness s the update of step t applies the sum that comes with its key, which is that
/// of step t - s, as soon as all own micro-batches of step t went backward. The stage releases the
/// messages of its last micro-batch only at the commit. So the next incarnation receives them
/// again, and knows when all went backward.
///
/// Throws Error{bad_options} when it is made with staleness but no micro_batches, or with wrong
/// hyper-parameters. Fails with the errors of its program, such as bad_shape.
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
  Input<ReducedGradient> reduced{this, "reduced"};  ///< of all buckets, an edge each
  Output<Snapshot> snapshot{this, "snapshot", Connection::optional};

  /// The port of a bucket: `gradient`, "gradient/1", "gradient/2", …
  Output<Gradient>* gradient_of(std::uint32_t bucket) {
    return bucket == 0 ? &gradient : more_gradients_.at(bucket - 1).get();
  }

  bool ready() const override {
    return stale() || can_snapshot() || reduced.ready() || next().has_value();
  }
  ActionLabel act() override;
  Waiting waiting() const override;
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override;
  void restore(const CommittedState& state, std::uint32_t steps) override;
  FiringRules firing_rules() const override;

  /// The state that forward and backward use now.
  const StatePtr& state() { return program().state(); }

 private:
  /// A micro-batch between forward and backward, with the slot that its input occupies.
  struct InFlight {
    Held<Activation> input;
    std::unique_ptr<StageProgram::Saved> saved;
  };

  /// A micro-batch that is going backward: its input half is done, or some of its buckets.
  struct GoingBack {
    InFlight forward;
    Held<OutputGradient> grad;
    std::uint32_t bucket = 0;  ///< the next one
  };

  std::optional<StageAction> next() const;
  StageView view() const;
  bool splits_backward() const;
  bool has_gradient_slots() const;
  bool can_begin_backward() const;
  bool can_continue_backward() const;
  std::uint32_t in_flight() const;
  bool can_update() const;
  /// One past the last of its micro-batches in a step of `micro_batches`.
  std::uint32_t own_end(std::uint32_t micro_batches) const;
  bool all_went_back() const;
  /// Of a committed step: a sender has repeated it for an incarnation that was restored later.
  bool is_past(const MessageKey& key) const;
  bool stale() const;  ///< such a message waits
  ActionLabel discard();
  bool can_snapshot() const { return pending_snapshot_ && snapshot.has_slot(); }
  void ask_snapshot(const Commit& commit);
  ActionLabel send_snapshot();
  /// Made when it is first needed: a graph's prototype of this actor needs none.
  StageProgram& program();
  ActionLabel forward();
  ActionLabel backward();
  ActionLabel weight_gradient();
  /// Makes and sends the next bucket of the first micro-batch that is going back.
  void continue_backward();
  void end_backward();
  ActionLabel evaluate();
  /// Takes the sums that have arrived; they keep their slots until the commit.
  void collect();
  ActionLabel update();

  StageOptions options_;
  std::unique_ptr<StageProgram> program_;
  std::uint32_t step_ = 0;  ///< the open step = number of committed steps
  std::vector<std::unique_ptr<Output<Gradient>>> more_gradients_;  ///< of buckets 1, 2, …
  std::map<std::uint32_t, InFlight> in_flight_;
  std::deque<GoingBack> going_back_;
  std::uint32_t forwarded_ = 0;  ///< one past the last micro-batch forwarded in this step
  std::uint32_t went_back_ = 0;  ///< one past the last that went backward, both halves
  /// The last own micro-batch of the step, with staleness.
  std::optional<std::pair<Held<Activation>, Held<OutputGradient>>> held_back_;
  std::map<std::uint32_t, std::vector<Held<ReducedGradient>>> sums_;  ///< by step
  StatePtr next_state_;  ///< voted for, not yet committed
  /// Requested by a commit; it leaves when the writer has a slot.
  std::optional<std::pair<std::uint32_t, StatePtr>> pending_snapshot_;
  bool closed_ = false;  ///< the last commit is made
};

}  // namespace troupe

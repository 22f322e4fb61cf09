#pragma once
#include <deque>
#include <memory>
#include <optional>

#include "actors/data/batch_maker.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "runtime/flow/actor.h"

namespace troupe {

struct LoaderOptions {
  Dataset dataset;
  TransformOptions transform;  ///< of training samples; tests are only normalised
  SamplerOptions sampler;      ///< its `replicas` is the number of loaders
  std::uint32_t replica = 0;
  Timeline timeline;
  int workers = 1;   ///< threads that prepare micro-batches; 0: this actor does
  int prefetch = 4;  ///< micro-batches prepared ahead of the edge's slots
};

/// Sends a replica's micro-batches in order: those of each step, and after an epoch the test set,
/// each sample once. Its position is the step, so a commit of the step is a commit of the position.
class Loader final : public Actor {
 public:
  using Options = LoaderOptions;
  explicit Loader(LoaderOptions options);
  ~Loader() override;

  Output<Activation> images{this, "images"};
  Output<Targets> targets{this, "targets"};

  bool ready() const override;
  ActionLabel act() override;
  Waiting waiting() const override;
  void restore(const CommittedState& state, std::uint32_t steps) override;

 private:
  /// A micro-batch to come, with what its header will say.
  struct Planned {
    Header header;
    MicroBatchPlan plan;
  };
  /// Batches of one split with their workers, which hand results back to this actor.
  struct Source {
    Source(Loader* owner, Split split, TransformOptions transform);
    BatchWorkers workers;
    int waiting = 0;  ///< requested, not arrived
  };

  bool can_request() const;
  void plan_ahead();
  void plan_step();
  void plan_evaluation(std::uint32_t step);
  void request();
  void arrive(Result<Batch> batch);

  LoaderOptions options_;
  Sampler sampler_;
  std::uint32_t next_step_ = 0;        ///< first step that is not planned yet
  std::deque<Planned> planned_;        ///< not requested yet
  std::deque<Header> requested_;       ///< under way, oldest first
  std::deque<Result<Batch>> arrived_;  ///< for the oldest of `requested_`
  std::unique_ptr<Source> train_, test_;
};

}  // namespace troupe

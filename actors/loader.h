#pragma once
#include <deque>
#include <memory>
#include <optional>

#include "actors/data/batch_maker.h"
#include "actors/data/resident_images.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "runtime/device/own_stream.h"
#include "runtime/flow/actor.h"
#include "runtime/worker_pool.h"

namespace troupe {

struct LoaderOptions {
  Dataset dataset;
  TransformOptions transform;  ///< of training samples; test samples are only normalised
  SamplerOptions sampler;      ///< its `replicas` is the number of loaders
  std::uint32_t replica = 0;
  Timeline timeline;
  int workers = 1;      ///< threads that prepare micro-batches; 0: the actor itself does
  MixOptions mix = {};  ///< of training samples
  int prefetch = 4;  ///< micro-batches that are prepared beyond the slots of the edge; at least 1
  /// Where samples lie when they are sent. A stream of the loader copies them there, or takes them
  /// from `resident`, while the stages compute.
  Device device = {};
  /// Of all loaders of the process, on `device`. Null: samples are prepared in the CPU's memory.
  std::shared_ptr<ResidentImages> resident = {};
};

/// Sends the micro-batches of a replica in order: those of each step, and the test set after an
/// epoch. Its position in the data is the step number, so a commit of the step commits the
/// position. If the preparation of a micro-batch fails, the action that would send it throws the
/// error.
class Loader final : public Actor {
 public:
  using Options = LoaderOptions;
  /// Throws Error{bad_options} for options outside their ranges, and as check_resident.
  explicit Loader(LoaderOptions options);

  Output<Activation> samples{this, "samples"};
  Output<Targets> targets{this, "targets"};

  bool ready() const override;
  ActionLabel act() override;
  Waiting waiting() const override;
  DeviceStream* stream() const override { return stream_.device_stream(); }
  void restore(const CommittedState& state, std::uint32_t steps) override;

 private:
  /// A micro-batch that is requested or prepared. Several workers finish in any order.
  struct Ahead {
    Header header;
    std::optional<Result<Batch>> batch = {};
  };

  bool can_request() const;
  void fill_pending();
  void add_step();
  void add_evaluation(std::uint32_t step);
  void request();
  void prepare(std::uint64_t number, const BatchMaker& maker, MicroBatchSamples samples);
  Tensor samples_of(const Header& header, const Batch& batch);

  LoaderOptions options_;
  Sampler sampler_;
  BatchMaker train_, test_;
  OwnStream stream_;                       ///< of LoaderOptions::device
  std::uint32_t next_step_ = 0;            ///< first step that is not in `pending_` yet
  std::deque<MicroBatchSamples> pending_;  ///< not requested yet
  std::deque<Ahead> ahead_;                ///< requested and not sent, at most `prefetch`
  std::uint64_t first_ = 0;                ///< index of the first of `ahead_` among all requests
  std::optional<WorkerPool>
      workers_;  ///< from the first request on; last member: workers use the makers
};

}  // namespace troupe

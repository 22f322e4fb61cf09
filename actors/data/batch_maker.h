#pragma once
// From a plan to tensors: in the calling thread, or by worker threads with bounded memory.

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/data/sampler.h"
#include "runtime/background.h"

namespace troupe {

/// A micro-batch ready for the first stage.
struct Batch {
  Tensor images;  ///< [n, C, H, W] of the transform's dtype, row-major
  Tensor labels;  ///< i64 [n]
};

/// Gathers and transforms the samples of plans. Without augmentations in the transform it makes
/// evaluation batches. Immutable: `make` may be called from any number of threads.
class BatchMaker {
 public:
  BatchMaker(Dataset dataset, Split split, SampleTransform transform);

  /// A pure function of the plan. Throws Error for damaged files and for samples out of range.
  Batch make(const MicroBatchPlan& plan) const;

 private:
  template <class T>
  void fill(const MicroBatchPlan& plan, const Tensor& source, const Tensor& images) const;

  Dataset dataset_;
  Split split_;
  SampleTransform transform_;
};

/// Prepares micro-batches in threads of its own and delivers them in the order of the requests.
///
/// At most `credits` requests are in flight: each holds memory from the request until its
/// delivery has returned. Deliveries come one at a time, from whichever worker finished, or from
/// within `request` where there are no workers. A delivery must not throw, wait or call stop();
/// it may call request() if there are workers.
class BatchWorkers {
 public:
  using Deliver = std::function<void(Result<Batch>)>;

  /// `workers` 0: batches are made by the thread that calls request().
  BatchWorkers(BatchMaker maker, int workers, int credits, Deliver deliver);
  ~BatchWorkers();  ///< as stop()
  BatchWorkers(const BatchWorkers&) = delete;
  BatchWorkers& operator=(const BatchWorkers&) = delete;

  /// Asks for a batch; from any thread. False, and nothing done, when no credit is left or after
  /// stop(). What making it throws is delivered in its turn.
  [[nodiscard]] bool request(MicroBatchPlan plan);
  /// Drops what is not delivered yet and joins the threads; nothing is delivered afterwards.
  void stop();

 private:
  struct Job;
  void deliver(const std::shared_ptr<Job>& job, Result<Batch> made);

  const BatchMaker maker_;
  const int credits_;
  const Deliver deliver_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Job>> ordered_;  // all that are not delivered, oldest first
  int in_flight_ = 0;
  bool delivering_ = false;
  bool stopped_ = false;
  Background background_;  // last: its threads use the others
};

}  // namespace troupe

#pragma once
#include <cuda_runtime_api.h>

#include <memory>

namespace troupe::cuda {

/// A callback that the host runs when a stream reaches it.
class HostStep {
 public:
  virtual ~HostStep() = default;
  /// Runs it; false if the stream has not reached it yet. It must not block.
  virtual bool try_run() = 0;
  /// Whether it takes time, so that the steps of other streams come before the next of its stream.
  virtual bool is_long() const { return false; }
};

/// The steps of one stream, which a thread of the process does in their order. Kernels do not wait
/// for them. CUDA wakes the thread. The thread also polls at intervals, because CUDA wakes nobody
/// after an error of the context. Steps that are left at the end of this object are still done,
/// those that are left when the process exits are not. Thread-safe.
class HostSteps {
 public:
  HostSteps();
  void add(std::shared_ptr<HostStep> step);
  /// Blocks until the steps that were added before are done. The caller knows that the device has
  /// come that far. Throws if the process exits before.
  void wait() const;
  /// Wakes the thread when the stream has done the work that it was given before.
  static cudaError_t wake_behind(cudaStream_t stream);

 private:
  struct Queue;
  friend class HostThread;
  std::shared_ptr<Queue> queue_;
};

}  // namespace troupe::cuda

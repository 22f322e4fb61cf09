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
};

/// The steps of one stream, which a thread of the process does in their order. Kernels do not wait
/// for them. The thread looks when it is woken, and now and then by itself: CUDA wakes nobody after
/// an error of the context. Steps that are left at the end of this object are still done.
/// Thread-safe.
class HostSteps {
 public:
  HostSteps();
  void add(std::shared_ptr<HostStep> step);
  /// Blocks until the steps that were added before are done. The caller knows that the device has
  /// come that far.
  void wait() const;
  /// Wakes the thread when the stream has done the work that it was given before.
  static cudaError_t wake_behind(cudaStream_t stream);

 private:
  struct Queue;
  friend class HostThread;
  std::shared_ptr<Queue> queue_;
};

}  // namespace troupe::cuda

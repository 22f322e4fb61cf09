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

/// The host steps of one stream. One thread of the process runs them in order; kernels do not wait
/// for them. CUDA wakes the thread. It also polls, because CUDA wakes nobody after an error of the
/// context. Steps that remain when this object is destroyed still run; steps that remain when the
/// process exits do not. Thread-safe.
class HostSteps {
 public:
  HostSteps();
  void add(std::shared_ptr<HostStep> step);
  /// Blocks until all steps added so far have run. Precondition: the device has reached them.
  /// Throws if the process exits first.
  void wait() const;
  /// Wakes the thread when the stream has done the work that it was given before.
  static cudaError_t wake_behind(cudaStream_t stream);

 private:
  struct Queue;
  friend class HostThread;
  std::shared_ptr<Queue> queue_;
};

}  // namespace troupe::cuda

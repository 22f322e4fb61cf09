#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "emulation.h"
#include "memory.h"

namespace cuda_on_cpu {

/// One recording of an event.
struct Recording {
  VectorClock clock;  ///< what the event comes after
  bool passed = true;
  bool timed = false;                                           ///< the event was made so
  std::optional<std::chrono::steady_clock::time_point> time{};  ///< of a timed one that has passed
};

/// What a stream does, in its order.
struct Task {
  std::function<void(const Operation&)> run;
  std::shared_ptr<Recording> awaits = nullptr;
  bool is_host_function = false;
  Operation operation = {};
};

struct Queue {
  std::uint16_t number = 0;  ///< in clocks
  std::deque<Task> tasks;
  VectorClock clock;   ///< what comes before a task that is given now
  bool busy = false;   ///< its first task, which was taken out, runs
  bool works = false;  ///< it was given more than host functions
  /// The tasks that it captures, while it does.
  std::shared_ptr<std::vector<Task>> captured = nullptr;
  bool capture_fails = false;  ///< a call was refused since it began
  bool closed = false;         ///< the stream was destroyed
  bool idle() const { return !busy && tasks.empty(); }
};

/// The streams and events of a device without a device. One thread does their tasks, each stream's
/// in its order, and takes a stream's next task by a seed. Thread-safe. Handles are numbers that
/// are never given twice, so that one that was destroyed is known. Its lock is taken after the
/// memory's, never before.
class Device {
 public:
  static Device& get();

  cudaError_t create_stream(cudaStream_t* stream);
  cudaError_t destroy_stream(cudaStream_t stream);  ///< its tasks are still done
  cudaError_t create_event(cudaEvent_t* event, bool timed);
  cudaError_t destroy_event(cudaEvent_t event);

  cudaError_t give(cudaStream_t stream, Task task);
  cudaError_t record(cudaEvent_t event, cudaStream_t stream);
  cudaError_t wait_on_device(cudaStream_t stream, cudaEvent_t event);
  cudaError_t query(cudaEvent_t event);
  cudaError_t wait(cudaEvent_t event);
  cudaError_t elapsed(float* milliseconds, cudaEvent_t from, cudaEvent_t to);
  cudaError_t wait(cudaStream_t stream);
  cudaError_t wait_for_all();

  /// Graphs are sequences of tasks: what one stream was given while it captured.
  cudaError_t begin_capture(cudaStream_t stream);
  cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph);
  cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t graph);
  cudaError_t launch(cudaGraphExec_t executable, cudaStream_t stream);
  cudaError_t destroy(std::uintptr_t graph);  ///< or an executable one

  cudaError_t allocate(void** block, std::size_t bytes, Place place);
  cudaError_t free(void* block, Place place);  ///< waits for all streams

  /// Calls that name neither: the sticky error, if there is one.
  cudaError_t status();

  /// What the driver tells.
  EmulationOptions options();

  /// For the order of a kernel's blocks and threads; 0: their own. By the device's thread.
  std::uint64_t draw_seed();
  std::uintptr_t checked_places() const { return checked_places_; }
  bool computes() const { return computes_; }

  /// An access to memory by the calling thread, outside of kernels.
  Operation host_operation();

  void begin(const EmulationOptions& options);
  void end();
  bool advance();
  void fail_after(std::uint64_t operations);
  Counts counts();

 private:
  using Lock = std::unique_lock<std::mutex>;
  Device();

  // With the lock.
  cudaError_t failure() const { return static_cast<cudaError_t>(options_.failure); }
  cudaError_t refuse();
  cudaError_t refuse_capture(Queue& queue, const char* what);
  Queue* find(cudaStream_t stream, cudaError_t& error);
  std::shared_ptr<Recording>* find(cudaEvent_t event, cudaError_t& error);
  void push(Queue& queue, Task task);
  std::uint16_t free_number() const;
  std::vector<Queue*> able() const;
  bool may_go_on() const;
  bool all_idle() const;
  cudaError_t wait_until(Lock& lock, const std::function<bool()>& done);
  void fail();

  void work();
  void do_next(Lock& lock);
  void run(Lock& lock, Task& task);

  std::mutex mutex_;
  std::atomic<std::uintptr_t> checked_places_{1};  ///< EmulationOptions
  std::atomic<bool> computes_{true};               ///< likewise
  std::condition_variable changed_;
  std::uintptr_t last_handle_ = 0;
  std::unordered_map<cudaStream_t, std::shared_ptr<Queue>> streams_;
  std::unordered_map<cudaEvent_t, std::shared_ptr<Recording>> events_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<std::vector<Task>>> graphs_;
  std::vector<std::shared_ptr<Queue>> queues_;  ///< also of destroyed streams, until they are idle
  VectorClock host_;                            ///< what a thread of the host has seen done
  EmulationOptions options_;
  std::mt19937_64 random_;
  int waiting_ = 0;            ///< threads of the host
  std::uint64_t allowed_ = 0;  ///< tasks, of Pace::by_hand
  std::uint64_t done_ = 0;     ///< tasks
  std::uint64_t recordings_ = 0, stream_waits_ = 0, host_functions_ = 0;
  std::uint64_t ordering_waits_ = 0, left_out_at_ = 0;
  struct LeftOut {
    const Queue* queue = nullptr;
    VectorClock clock;
  };
  std::optional<LeftOut> left_out_;  ///< the wait, until the queue is given its next work
  bool left_out_was_needless_ = false;
  std::uint64_t launched_graphs_ = 0;
  std::uint64_t fails_at_ = 0;
  bool failed_ = false;
  bool quiet_ = false;  ///< the host has given nothing for a while
};

}  // namespace cuda_on_cpu

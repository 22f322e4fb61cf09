#pragma once
// Threads for jobs outside actors: preparing samples, writing checkpoints, printing.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace troupe {

template <class T>
struct ResultOf {
  using Type = Result<T>;
};
template <>
struct ResultOf<void> {
  using Type = Status;
};
template <class T>
struct ResultOf<Result<T>> {
  using Type = Result<T>;
};

/// The value that `work()` returns, or the error that it throws. An exception other than Error
/// becomes ErrorCode::io if it is a std::system_error, out_of_memory if it is a std::bad_alloc,
/// else internal. Work without a value gives a Status.
template <class Work>
auto attempt(Work&& work) -> typename ResultOf<std::invoke_result_t<Work&>>::Type {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work&>>)
      return work(), success();
    else
      return work();
  } catch (const Error& error) {
    return error;
  } catch (const std::system_error& error) {
    return Error(ErrorCode::io, error.what());
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::out_of_memory, "out of memory",
                 "free memory, or raise its limit (ulimit -v)");
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, error.what());
  } catch (...) {
    return Error(ErrorCode::internal, "an exception that is not a std::exception");
  }
}

struct WorkerPoolOptions {
  std::string name;           ///< of the threads, as debuggers show it; at most 15 bytes
  int threads = 1;            ///< 0: the submitting call runs the job itself
  std::size_t capacity = 64;  ///< jobs that may wait, in addition to those that run
  bool finishes = true;       ///< stop() runs the waiting jobs; false: it drops them
};

/// A bounded queue of jobs and the threads that run them, started in the order of submission. The
/// threads use SCHED_BATCH: they do not preempt actors that compute. Thread-safe; the pool's own
/// threads must not call stop() or the destructor.
class WorkerPool {
 public:
  /// Throws Error: bad_options for impossible numbers, io if a thread cannot be started.
  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs `work()` on a thread of the pool and passes its Result (see `attempt`) to `done`, which
  /// must not throw. Never waits: returns false, without running it, if the queue is full or the
  /// pool is stopped.
  template <class Work, class Done>
  [[nodiscard]] bool try_submit(Work work, Done done) {
    return push(job(std::move(work), std::move(done)), /*waits=*/false);
  }
  /// The same, but waits while the queue is full; false after stop(). Jobs of the pool must not
  /// call it, because a job could then wait for itself.
  template <class Work, class Done>
  bool submit(Work work, Done done) {
    return push(job(std::move(work), std::move(done)), /*waits=*/true);
  }

  /// Waits until all submitted jobs have run.
  void drain();
  /// Runs or drops the waiting jobs, and joins the threads.
  void stop();

 private:
  using Job = std::function<void()>;
  template <class Work, class Done>
  static Job job(Work work, Done done) {
    return [work = std::move(work), done = std::move(done)]() mutable { done(attempt(work)); };
  }
  bool push(Job job, bool waits);
  void work();

  const WorkerPoolOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;   // there is a job, or the end
  std::condition_variable moved_;  // a job was taken or done, or the end
  std::deque<Job> jobs_;
  std::size_t busy_ = 0;  // jobs that run
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe

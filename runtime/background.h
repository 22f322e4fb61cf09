#pragma once
// Work away from the actors' threads: preparing samples, writing checkpoints, printing.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
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

/// What `work()` returns, or what it throws: an Error as it is, another exception as io where it is
/// the system's and as internal otherwise. Work without a value gives a Status.
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
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, error.what());
  }
}

struct BackgroundOptions {
  std::string name;           ///< of its threads, as debuggers show them; the first 15 bytes
  int threads = 1;            ///< 0: a job is done within the call that hands it over
  std::size_t capacity = 64;  ///< jobs that may wait, beside those that are being done
  bool finishes = true;       ///< what waits at the end is done; false: dropped
};

/// A bounded queue of jobs and the threads that do them, begun in the order in which they came.
/// They take a core that is free or their turn, without interrupting actors at work.
/// All calls may come from any thread, but stop() and the destructor from none of its own.
class Background {
 public:
  /// Throws Error: bad_options for numbers that cannot work, io where a thread does not start.
  explicit Background(BackgroundOptions options);
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Does `work()` and hands its Result (see `attempt`) to `done`, on one of its threads; `done`
  /// must not throw. Never waits: false, and nothing done, where it is full or stopped.
  template <class Work, class Done>
  [[nodiscard]] bool try_submit(Work work, Done done) {
    return push(job(std::move(work), std::move(done)), /*waits=*/false);
  }
  /// The same, but waits where it is full; false after stop(). Not for its own jobs, which could
  /// wait for themselves.
  template <class Work, class Done>
  bool submit(Work work, Done done) {
    return push(job(std::move(work), std::move(done)), /*waits=*/true);
  }

  /// Waits until all that was handed over is done.
  void drain();
  /// Finishes or drops what waits and joins the threads.
  void stop();

 private:
  using Job = std::function<void()>;
  template <class Work, class Done>
  static Job job(Work work, Done done) {
    return [work = std::move(work), done = std::move(done)]() mutable { done(attempt(work)); };
  }
  bool push(Job job, bool waits);
  void work();

  const BackgroundOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;   // there is a job, or the end
  std::condition_variable moved_;  // a job was taken or done, or the end
  std::deque<Job> jobs_;
  std::size_t busy_ = 0;  // jobs that are being done
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe

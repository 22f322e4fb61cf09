#include "ops/cpu/parallel.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <thread>

#include "runtime/quiet_thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::cpu::detail {
namespace {

/// A thread that waits looks for this long before it sleeps: longer than what lies between two
/// kernels of a step, and much shorter than a time slice, for the sake of other programs. Threads
/// of OpenMP look for milliseconds: where two of them share a core, each kernel takes as long.
constexpr std::chrono::microseconds looking{50};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Whether the condition came to hold while looking for it.
template <class Condition>
bool seen(const Condition& holds) {
  const auto end = std::chrono::steady_clock::now() + looking;
  do {
    for (int i = 0; i < 32; ++i) {
      if (holds()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// The threads that help one thread. Range r of a job is for helper r; the caller takes range 0,
/// then those that no helper has taken yet, so it never waits for a thread that does not run.
class Team {
 public:
  Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    ending_ = true;
    ring();
    for (Helper& helper : helpers_) helper.thread.join();
  }

  void run(int width, std::int64_t count, const void* body, RangeFunction call) {
    grow(static_cast<std::size_t>(width) - 1);
    job_ = {width, count, body, call};
    done_.store(0, std::memory_order_relaxed);
    const std::uint64_t number = ++jobs_;
    published_.store(number << width_bits | static_cast<std::uint64_t>(width));
    ring();
    run_range(0);
    int mine = 1;
    for (std::size_t r = 1; r < static_cast<std::size_t>(width); ++r)
      if (r > helpers_.size() || helpers_[r - 1].takes(number)) {
        run_range(static_cast<std::int64_t>(r));
        ++mine;
      }
    const int others = width - mine;
    if (seen([&] { return done_.load(std::memory_order_acquire) == others; })) return;
    for (int done = done_; done != others; done = done_) done_.wait(done);
  }

  static thread_local bool inside;  ///< this thread runs a range

 private:
  static constexpr int width_bits = 16;

  struct Job {
    int width = 0;
    std::int64_t count = 0;
    const void* body = nullptr;
    RangeFunction call = nullptr;
  };

  struct Helper {
    alignas(64) std::atomic<std::uint64_t> taken{0};  ///< the latest job whose range was taken
    std::thread thread;

    /// Whether the calling thread, and no other, takes the helper's range of this job.
    bool takes(std::uint64_t number) {
      std::uint64_t before = taken.load();
      return before < number && taken.compare_exchange_strong(before, number);
    }
  };

  void grow(std::size_t helpers) {
    while (helpers_.size() < helpers) {
      const std::size_t before = helpers_.size();
      try {
        Helper& helper = helpers_.emplace_back();
        helper.taken = jobs_;
        helper.thread = quiet_thread([this, &helper, rank = helpers_.size()] {
          help(helper, static_cast<std::int64_t>(rank));
        });
      } catch (const std::exception&) {  // no thread, no memory: the caller takes its range
        helpers_.resize(before);
        return;
      }
    }
  }

  void run_range(std::int64_t rank) {
    const std::int64_t begin = job_.count * rank / job_.width;
    const std::int64_t end = job_.count * (rank + 1) / job_.width;
    const bool outside = !inside;
    inside = true;
    if (begin < end) job_.call(job_.body, begin, end);
    inside = !outside;
  }

  void ring() {
    bell_.fetch_add(1);
    bell_.notify_all();
  }

  void help(Helper& helper, std::int64_t rank) {
    std::uint64_t last = 0;
    while (!ending_) {
      const std::uint32_t heard = bell_;
      const std::uint64_t job = published_;
      if (job == last) {
        if (!seen([&] { return published_ != last || ending_; }) && published_ == last && !ending_)
          bell_.wait(heard);
        continue;
      }
      last = job;
      const auto width = static_cast<std::int64_t>(job & ((1U << width_bits) - 1));
      // The job stays as it is while one of its ranges was taken and is not done.
      if (rank < width && helper.takes(job >> width_bits)) {
        run_range(rank);
        done_.fetch_add(1, std::memory_order_acq_rel);
        done_.notify_one();
      }
    }
  }

  Job job_;
  std::uint64_t jobs_ = 0;                               ///< so far; each has a number
  alignas(64) std::atomic<std::uint64_t> published_{0};  ///< the job's number and width
  std::atomic<std::uint32_t> bell_{0};                   ///< helpers sleep on it
  alignas(64) std::atomic<int> done_{0};                 ///< ranges that helpers have done
  std::atomic<bool> ending_{false};
  std::deque<Helper> helpers_;  ///< rank r at r - 1
};

thread_local bool Team::inside = false;

}  // namespace

void parallel(int threads, std::int64_t count, const void* body, RangeFunction call) {
  if (Team::inside) return call(body, 0, count);
  thread_local Team team;
  team.run(threads, count, body, call);
}

}  // namespace troupe::cpu::detail

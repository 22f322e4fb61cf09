#include "runtime/worker_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

namespace troupe {
namespace {

constexpr std::size_t name_bytes = 15;  // Linux keeps no more

// A thread that wakes up waits for a free core or its turn, and does not preempt a stage that
// computes (sched(7), SCHED_BATCH). A policy that was set for the process stays.
void use_batch_scheduling() {
  const sched_param none{};
  if (::sched_getscheduler(0) == SCHED_OTHER)
    (void)::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);
}

}  // namespace

WorkerPool::WorkerPool(WorkerPoolOptions options) : options_(std::move(options)) {
  if (options_.threads < 0 || options_.capacity < 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: the pool has {} threads and room for {} waiting jobs",
                            options_.name, options_.threads, options_.capacity),
                "use at least 0 threads and room for at least 1 job");
  const std::string name = options_.name.substr(0, name_bytes);
  threads_.reserve(static_cast<std::size_t>(options_.threads));
  try {
    for (int i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this] { work(); });
      pthread_setname_np(threads_.back().native_handle(), name.c_str());
    }
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::io,
                fmt::format("starting thread {} of {} of {}: {}", threads_.size() + 1,
                            options_.threads, options_.name, error.what()),
                "use fewer threads");
  }
}

bool WorkerPool::push(Job job, bool waits) {
  std::unique_lock lock(mutex_);
  if (options_.threads == 0) {
    if (stopped_) return false;
    lock.unlock();
    job();
    return true;
  }
  if (waits) moved_.wait(lock, [this] { return stopped_ || jobs_.size() < options_.capacity; });
  if (stopped_ || jobs_.size() >= options_.capacity) return false;
  jobs_.push_back(std::move(job));
  lock.unlock();
  wake_.notify_one();
  return true;
}

void WorkerPool::work() {
  use_batch_scheduling();
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    moved_.notify_all();
    job();
    job = nullptr;  // freed without the lock
    lock.lock();
    --busy_;
    moved_.notify_all();
  }
}

void WorkerPool::drain() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return jobs_.empty() && busy_ == 0; });
}

void WorkerPool::stop() {
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (!options_.finishes) dropped.swap(jobs_);
  }
  wake_.notify_all();
  moved_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace troupe

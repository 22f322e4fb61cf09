#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe {

/// Runs task(index, worker) for every index in [0, count), in rising order, on `threads` workers
/// (the caller is worker 0, the others live for this call). After a task has thrown no further task
/// begins, and this function rethrows the first exception.
template <class Task>
void parallel_for(std::size_t count, int threads, Task&& task) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&](std::size_t worker) {
    try {
      for (std::size_t index = next++; index < count; index = next++) task(index, worker);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  const std::size_t workers = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
  {
    std::vector<std::jthread> others;
    for (std::size_t worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
    work(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace troupe

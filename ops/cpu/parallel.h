#pragma once
#include <cstdint>
#include <exception>
#include <mutex>

#include "runtime/tensor/device.h"

namespace troupe::cpu {

namespace detail {
using RangeFunction = void (*)(const void* body, std::int64_t begin, std::int64_t end);
/// The body must not throw.
void parallel(int threads, std::int64_t count, const void* body, RangeFunction call);
}  // namespace detail

/// Calls body(begin, end) for consecutive ranges that cover [0, count), each on one of the stream's
/// threads. Small work, below `grain` items per thread, takes fewer threads; one range is called
/// directly, without any threading. If bodies throw, it rethrows one of their errors after all
/// have ended. The result must not depend on how the items are split. A kernel that has no other
/// threads thus gives the same bits for any number of them.
template <class Body>
void parallel(const Stream& stream, std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t most = grain > 1 ? count / grain : count;
  const int threads = most < stream.threads ? static_cast<int>(most) : stream.threads;
  if (threads <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](std::int64_t begin, std::int64_t end) {
    try {
      body(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  detail::parallel(threads, count, &guarded,
                   [](const void* erased, std::int64_t begin, std::int64_t end) {
                     (*static_cast<const decltype(guarded)*>(erased))(begin, end);
                   });
  if (failure) std::rethrow_exception(failure);
}

/// The number of elements below which an additional thread costs more time than it saves.
inline constexpr std::int64_t elements_per_thread = 8192;

}  // namespace troupe::cpu

#include "ops/cuda/event.h"

#include <array>
#include <mutex>
#include <vector>

#include "ops/cuda/error.h"

namespace troupe::cuda {
namespace {

struct Pool {
  std::mutex mutex;
  std::vector<cudaEvent_t> free;
  std::size_t total = 0;  ///< also of those in use
};

// Never destroyed: fences in other statics may outlive any order of destruction.
Pool& pool_of(Event::Kind kind) {
  static auto* pools = new std::array<Pool, 2>;
  return (*pools)[kind == Event::Kind::timed];
}

cudaEvent_t take(Event::Kind kind) {
  Pool& pool = pool_of(kind);
  const std::lock_guard lock(pool.mutex);
  if (!pool.free.empty()) {
    const cudaEvent_t event = pool.free.back();
    pool.free.pop_back();
    return event;
  }
  pool.free.reserve(pool.total + 1);  // so that the destructor needs no memory
  cudaEvent_t event = nullptr;
  const unsigned flags = kind == Event::Kind::timed ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event, flags), "make an event");
  ++pool.total;
  return event;
}

}  // namespace

Event Event::record(cudaStream_t stream, Kind kind) {
  Event result;
  result.event_ = take(kind);
  result.kind_ = kind;
  check(cudaEventRecord(result.event_, stream), "record an event");
  return result;
}

Event::~Event() {
  if (!event_) return;
  Pool& pool = pool_of(kind_);
  const std::lock_guard lock(pool.mutex);
  pool.free.push_back(event_);
}

cudaError_t Event::query() const {
  const cudaError_t status = event_ ? cudaEventQuery(event_) : cudaSuccess;
  if (status == cudaErrorNotReady) cudaGetLastError();  // an answer, which would be the next error
  return status;
}

std::optional<std::chrono::nanoseconds> Event::since(const Event& earlier) const {
  if (query() != cudaSuccess) return std::nullopt;
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, earlier.event_, event_) != cudaSuccess)
    return std::nullopt;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace troupe::cuda

#include "ops/cuda/event.h"

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
Pool& pool() {
  static auto* pool = new Pool;
  return *pool;
}

cudaEvent_t take() {
  const std::lock_guard lock(pool().mutex);
  if (!pool().free.empty()) {
    const cudaEvent_t event = pool().free.back();
    pool().free.pop_back();
    return event;
  }
  pool().free.reserve(pool().total + 1);  // so that the destructor needs no memory
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  ++pool().total;
  return event;
}

}  // namespace

Event Event::record(cudaStream_t stream) {
  Event result;
  result.event_ = take();
  check(cudaEventRecord(result.event_, stream), "record an event");
  return result;
}

Event::~Event() {
  if (!event_) return;
  const std::lock_guard lock(pool().mutex);
  pool().free.push_back(event_);
}

cudaError_t Event::query() const {
  const cudaError_t status = event_ ? cudaEventQuery(event_) : cudaSuccess;
  if (status == cudaErrorNotReady) cudaGetLastError();  // an answer, which would be the next error
  return status;
}

}  // namespace troupe::cuda

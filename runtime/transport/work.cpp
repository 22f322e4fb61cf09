#include "runtime/transport/work.h"

#include <utility>

namespace troupe {

bool Work::done() const {
  const std::lock_guard lock(mutex_);
  return status_.has_value();
}

Status Work::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return status_.has_value(); });
  return *status_;
}

void Work::then(std::function<void(const Status&)> next) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_) {
      next_.push_back(std::move(next));
      return;
    }
  }
  next(*status_);  // never changes again
}

bool Work::finish(Status status, const std::function<void()>& store) {
  std::vector<std::function<void(const Status&)>> next;
  {
    const std::lock_guard lock(mutex_);
    if (status_) return false;
    if (store) store();
    status_ = std::move(status);
    next.swap(next_);
    ended_.notify_all();  // under the lock: a waiter may destroy this as soon as it is released
  }
  for (const auto& call : next) call(*status_);
  return true;
}

Tensor Receive::tensor() const {
  if (!done())
    throw Error(ErrorCode::internal, "a tensor was taken before it arrived", "call wait() first");
  // The status of an ended work never changes, and tensor_ was stored before it.
  const_cast<Receive*>(this)->wait().value();
  return tensor_;
}

bool Receive::deliver(Tensor tensor) {
  return finish(success(), [&] { tensor_ = std::move(tensor); });
}

}  // namespace troupe

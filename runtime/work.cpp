#include "runtime/work.h"

#include <utility>

namespace troupe {

bool Work::done() const {
  const std::lock_guard lock(mutex_);
  return status_.has_value();
}

Status Work::status() const {
  const std::lock_guard lock(mutex_);
  if (status_) return *status_;
  throw Error(ErrorCode::internal, "the status of work was read before its end",
              "read it in a callback of Work::then");
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
  }
  for (const auto& call : next) call(*status_);
  return true;
}

}  // namespace troupe

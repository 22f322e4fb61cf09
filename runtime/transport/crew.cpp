#include "runtime/transport/crew.h"

#include <utility>

namespace troupe::transport {

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (tasks_.size() >= idle_) threads_.emplace_back([this] { serve(); });  // takes it, or a former
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

void Crew::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace troupe::transport

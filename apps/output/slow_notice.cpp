#include "apps/output/slow_notice.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "runtime/quiet_thread.h"

namespace troupe {

SlowNotice::SlowNotice(std::string line, std::chrono::milliseconds delay,
                       std::function<void(const std::string&)> print)
    : thread_(quiet_thread([this, line = std::move(line), delay, print = std::move(print)] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, delay, [this] { return done_; })) print(line);
      })) {}

void SlowNotice::to_stderr(const std::string& line) { fmt::print(stderr, "{}\n", line); }

SlowNotice::~SlowNotice() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace troupe

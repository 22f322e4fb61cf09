#include "apps/output/slow_notice.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "runtime/quiet_thread.h"

namespace troupe {

SlowNotice::SlowNotice(std::string line)
    : thread_(quiet_thread([this, line = std::move(line)] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(2), [this] { return done_; }))
          fmt::print(stderr, "{}\n", line);
      })) {}

SlowNotice::~SlowNotice() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace troupe

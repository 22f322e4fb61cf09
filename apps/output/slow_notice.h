#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// Prints a line to stderr if it lives for longer than two seconds, so that no long preparation is
/// silent.
class SlowNotice {
 public:
  explicit SlowNotice(std::string line);
  ~SlowNotice();
  SlowNotice(const SlowNotice&) = delete;
  SlowNotice& operator=(const SlowNotice&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe

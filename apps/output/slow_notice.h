#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// Prints a line to stderr if it lives for longer than `delay`, so that no long preparation is
/// silent. `print` is called in another thread.
class SlowNotice {
 public:
  explicit SlowNotice(std::string line, std::chrono::milliseconds delay = std::chrono::seconds(2),
                      std::function<void(const std::string&)> print = to_stderr);
  ~SlowNotice();
  SlowNotice(const SlowNotice&) = delete;
  SlowNotice& operator=(const SlowNotice&) = delete;

 private:
  static void to_stderr(const std::string& line);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe

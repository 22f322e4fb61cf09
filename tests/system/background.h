#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace troupe {

/// Since it was made.
class Stopwatch {
 public:
  std::chrono::duration<double> passed() const { return Clock::now() - begin_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

/// Sends a signal to one process. Throws for what is no process, where kill() would mean all of
/// them.
void send_signal(pid_t process, int number);

/// A process that goes on while the test does something to it, in a process group of its own.
class Background {
 public:
  /// Without a shell; its output goes to files in a temporary folder.
  explicit Background(const std::vector<std::string>& words);
  /// Kills what is left of it.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void signal(int number) const;
  pid_t pid() const { return pid_; }
  bool runs() const;  ///< not ended yet
  /// Waits for its end; kills its group after `limit`, with exit code 124: only what hangs takes so
  /// long, also on a slow machine.
  Outcome wait(std::chrono::seconds limit = std::chrono::seconds(200));

 private:
  pid_t pid_ = -1;
  std::filesystem::path folder_;
};

/// Waits for a condition that another process brings about; false if it does not for too long.
template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 150'000; ++i) {
    if (condition()) return true;
    struct timespec pause {
      .tv_sec = 0, .tv_nsec = 1'000'000
    };
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

/// The processes with this text among their environment's entries or their arguments' words, such
/// as "RANK=1" beside a unique one; zombies are none.
std::vector<pid_t> processes_with(const std::vector<std::string>& entries);

}  // namespace troupe

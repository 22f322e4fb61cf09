#pragma once
#include <signal.h>

#include <functional>
#include <thread>

namespace troupe {

/// Turns the first SIGINT, SIGTERM, SIGUSR1 (which Slurm sends before a time limit) or SIGHUP (the
/// end of a terminal or an ssh session, unless ignored: nohup) into a call on a thread of its own,
/// where anything may be done; one that comes more than a second later ends the process as if there
/// had been no handler.
///
/// Make it before any other thread starts: the signals are blocked in the threads that are started
/// afterwards, so that only this one receives them. One at a time in a process. The destructor
/// restores the signals' earlier state in the calling thread.
class StopSignal {
 public:
  explicit StopSignal(std::function<void()> on_stop);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

 private:
  void wait(const std::stop_token& stop);

  std::function<void()> on_stop_;
  sigset_t signals_{}, before_{};
  std::jthread thread_;
};

}  // namespace troupe

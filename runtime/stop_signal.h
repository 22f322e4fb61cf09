#pragma once
#include <signal.h>

#include <chrono>
#include <functional>
#include <thread>

#include "runtime/fd.h"

namespace troupe {

/// Turns the first SIGINT, SIGTERM, SIGUSR1 (which Slurm sends before a time limit) or SIGHUP (the
/// end of a terminal or an ssh session, unless ignored as by nohup) into a call on a thread of its
/// own, without the limits of a signal handler. A signal more than a second later ends the process
/// as without a handler.
///
/// Construct it before any other thread starts: threads that start later block these signals, so
/// that only this one receives them. At most one per process at a time. The destructor restores the
/// signal mask of the calling thread.
class StopSignal {
 public:
  explicit StopSignal(std::function<void()> on_stop);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

 private:
  void wait(const std::stop_token& stop);
  /// Takes a signal. False if none has come within `longest`, or the destructor runs.
  bool has_come(std::chrono::milliseconds longest) const;

  std::function<void()> on_stop_;
  sigset_t signals_{}, before_{};
  Fd signal_, end_;  ///< readable when a signal has come, when the destructor runs
  std::jthread thread_;
};

}  // namespace troupe

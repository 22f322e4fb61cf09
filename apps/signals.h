#pragma once
#include <atomic>
#include <stop_token>
#include <thread>

namespace troupe {

/// Turns the first Ctrl-C or SIGTERM into a stop request; a second one ends the process at once.
/// Made before any other thread, since those inherit the blocked signals.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();

  std::stop_token token() const { return source_.get_token(); }
  /// The signal that asked, or 0.
  int signal() const { return signal_; }

 private:
  std::stop_source source_;
  std::atomic<int> signal_{0};
  std::jthread thread_;
};

}  // namespace troupe

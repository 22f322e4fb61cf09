#include "runtime/stop_signal.h"

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <utility>

namespace troupe {

StopSignal::StopSignal(std::function<void()> on_stop) : on_stop_(std::move(on_stop)) {
  ::sigemptyset(&signals_);
  ::sigaddset(&signals_, SIGINT);
  ::sigaddset(&signals_, SIGTERM);
  ::sigaddset(&signals_, SIGUSR1);
  // Under nohup the end of the terminal is not to be the end of the run.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    ::sigaddset(&signals_, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::jthread([this](const std::stop_token& stop) { wait(stop); });
}

StopSignal::~StopSignal() {
  thread_.request_stop();
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignal::wait(const std::stop_token& stop) {
  // Looked at fifty times a second: a stop_token cannot wake sigtimedwait.
  constexpr timespec period{.tv_sec = 0, .tv_nsec = 20'000'000};
  constexpr auto grace = std::chrono::seconds(1);
  std::jthread caller;
  while (!stop.stop_requested()) {
    if (::sigtimedwait(&signals_, nullptr, &period) < 0) continue;
    caller = std::jthread(on_stop_);  // apart: it may take its time, this thread must not
    // Launchers and terminals signal a process and its group, so one wish may come twice at once.
    const auto begin = std::chrono::steady_clock::now();
    while (!stop.stop_requested() && std::chrono::steady_clock::now() - begin < grace)
      ::sigtimedwait(&signals_, nullptr, &period);
    // From here on a signal does what it does by default; this thread is the one to take it.
    ::pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    break;
  }
  while (!stop.stop_requested()) ::nanosleep(&period, nullptr);
}

}  // namespace troupe

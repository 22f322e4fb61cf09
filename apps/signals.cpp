#include "apps/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>


namespace troupe {
namespace {

sigset_t stopping_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGUSR2}) sigaddset(&set, signal);
  return set;
}

}  // namespace

StopOnSignal::StopOnSignal() {
  const sigset_t set = stopping_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this, set](std::stop_token stop) {
    while (!stop.stop_requested()) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0 || signal == SIGUSR2) continue;  // SIGUSR2 wakes for the end
      if (signal_.exchange(signal) != 0) _exit(128 + signal);
      source_.request_stop();
    }
  });
}

StopOnSignal::~StopOnSignal() {
  thread_.request_stop();
  pthread_kill(thread_.native_handle(), SIGUSR2);
}

}  // namespace troupe

#pragma once
#include <signal.h>

#include <thread>
#include <utility>

namespace troupe {

/// Starts a thread with all signals blocked, so that no signal handler of the program runs on it.
/// Signals of the thread's own faults (SIGSEGV and similar) stay unblocked: blocked, they would end
/// the process without calling their handlers.
template <class Run>
std::thread quiet_thread(Run run) {
  sigset_t quiet, before;
  ::sigfillset(&quiet);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    ::sigdelset(&quiet, own);
  ::pthread_sigmask(SIG_SETMASK, &quiet, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};  // also if no thread can be started
  return std::thread(std::move(run));
}

}  // namespace troupe

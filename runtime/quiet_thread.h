#pragma once
#include <signal.h>

#include <thread>
#include <utility>

namespace troupe {

/// Starts a thread that no handler of the program interrupts: signals go to its other threads, and
/// one that is sent to this thread alone waits for ever. Those that a mistake of the thread's own
/// raises (SIGSEGV and the like) keep their handlers: blocked, they would end the process unseen.
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
  } restore{before};  // also where no thread can be started
  return std::thread(std::move(run));
}

}  // namespace troupe

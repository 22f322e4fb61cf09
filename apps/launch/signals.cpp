#include "apps/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace troupe {

Signals::Signals() {
  ::sigemptyset(&set_);
  for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
    ::sigaddset(&set_, number);
  // Under nohup the run continues when the terminal closes.
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaddset(&set_, SIGHUP);
  ::signal(SIGCHLD, SIG_DFL);  // if it were ignored, the endings of children would be lost
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  descriptor_ = new_descriptor(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Signals::next() const {
  signalfd_siginfo info{};
  return ::read(descriptor(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                 : 0;
}

}  // namespace troupe

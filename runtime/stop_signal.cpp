#include "runtime/stop_signal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <system_error>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds forever{-1};

}  // namespace

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
  try {
    signal_ = new_descriptor(::signalfd(-1, &signals_, SFD_CLOEXEC));
    end_ = new_descriptor(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::jthread([this](const std::stop_token& stop) { wait(stop); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw;
  }
}

StopSignal::~StopSignal() {
  thread_.request_stop();
  ::eventfd_write(end_.get(), 1);
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignal::has_come(std::chrono::milliseconds longest) const {
  pollfd sources[] = {{signal_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
  while (::poll(sources, 2, static_cast<int>(longest.count())) < 0 && errno == EINTR) {
  }
  signalfd_siginfo taken;
  return (sources[0].revents & POLLIN) != 0 &&
         ::read(signal_.get(), &taken, sizeof taken) == sizeof taken;
}

void StopSignal::wait(const std::stop_token& stop) {
  if (!has_come(forever)) return;
  std::jthread caller;  // apart: it may take its time, this thread must not
  try {
    caller = std::jthread(on_stop_);
  } catch (const std::system_error&) {
    on_stop_();
  }
  // Launchers and terminals signal a process and its group, so one wish may come twice at once.
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds grace(1);
  const auto begin = steady_clock::now();
  for (steady_clock::duration left = grace; left > left.zero() && !stop.stop_requested();
       left = begin + grace - steady_clock::now())
    has_come(std::chrono::ceil<std::chrono::milliseconds>(left));
  // From here on a signal does what it does by default; this thread is the one to take it.
  ::pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  while (!stop.stop_requested()) has_come(forever);
}

}  // namespace troupe

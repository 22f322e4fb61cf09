#include "apps/launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

/// Pointers as exec wants them; made before the fork, as a child may not ask for memory.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const auto& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

struct Prepared {
  std::vector<std::string> variables;
  std::vector<char*> words, environment;
};

Prepared prepare(const ChildOptions& options) {
  Prepared prepared;
  for (const auto& [name, value] : options.environment)
    prepared.variables.push_back(fmt::format("{}={}", name, value));
  prepared.words = pointers(options.program.words);
  prepared.environment = pointers(prepared.variables);
  return prepared;
}

/// In the new process, where only async-signal-safe calls are allowed. Returns only on failure.
void become(const ChildOptions& options, const Prepared& prepared, pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the launcher ended before the line above
  if (options.announce >= 0) {
    const pid_t self = ::getpid();
    [[maybe_unused]] const auto written = ::write(options.announce, &self, sizeof self);
  }
  if (!options.cpus.empty()) bind_to(options.cpus);
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGHUP && number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  // Copies first: the numbers may be each other's.
  const int output = ::fcntl(options.output, F_DUPFD, 3),
            error = ::fcntl(options.error, F_DUPFD, 3);
  if (nothing < 0 || output < 0 || error < 0) return;
  if (::dup2(nothing, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(error, 2) < 0) return;
  for (const int number : {nothing, output, error})
    if (number > 2) ::close(number);
  ::execve(options.program.path.c_str(), prepared.words.data(), prepared.environment.data());
}

}  // namespace

Child Child::start(const ChildOptions& options) {
  const Prepared prepared = prepare(options);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot create a pipe: {}", std::strerror(errno)),
                "raise the limit of open files: ulimit -n");
  Fd reading(ends[0]), writing(ends[1]);
  Child child;
  const pid_t parent = ::getpid();
  child.pid_ = ::fork();
  if (child.pid_ == 0) {
    become(options, prepared, parent);
    const int reason = errno;
    const auto written = ::write(writing.get(), &reason, sizeof reason);
    ::_exit(written == sizeof reason ? 127 : 126);
  }
  int reason = child.pid_ < 0 ? errno : 0;
  writing.reset();
  // End of file: the program has started.
  if (child.pid_ > 0 && ::read(reading.get(), &reason, sizeof reason) == sizeof reason)
    ::waitpid(child.pid_, nullptr, 0);
  if (reason != 0)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot start {}: {}", options.program.path.string(),
                            std::strerror(reason)),
                "check the path, its permissions, and the limits of processes and files (ulimit "
                "-u, ulimit -n)");
  child.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  if (!child.pidfd_) {
    const int why = errno;
    child.signal_group(SIGKILL);
    ::waitpid(child.pid_, nullptr, 0);
    throw Error(ErrorCode::io, fmt::format("launch: cannot open a pidfd: {}", std::strerror(why)),
                "use Linux 5.3 or later, or raise the limit of open files: ulimit -n");
  }
  return child;
}

void Child::signal(int number) const {
  // By system call: glibc 2.36 declares neither function for C++.
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);
}

void Child::signal_group(int number) const { ::kill(-pid_, number); }

Ending Child::reap() {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  if (info.si_code == CLD_EXITED) return {.code = info.si_status};
  return {.signal = info.si_status};
}

}  // namespace troupe

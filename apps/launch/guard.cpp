#include "apps/launch/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr pid_t dismissed = 0;

/// The whole life of the guard: groups come down the line until it ends.
[[noreturn]] void keep_watch(int line) {
  ::setsid();
  ::prctl(PR_SET_NAME, "troupe-guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // A reader of the launcher's output must see its end.
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int number = 0; number < 3; ++number) ::dup2(nothing, number);
  ::dup2(line, 3);
  ::close_range(4, ~0U, 0);
  std::vector<pid_t> groups;
  pid_t group = dismissed;
  ssize_t got = 0;
  while ((got = ::read(3, &group, sizeof group)) == sizeof group || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (group == dismissed) ::_exit(0);
    groups.push_back(group);
  }
  for (const pid_t lost : groups) ::kill(-lost, SIGKILL);
  ::_exit(0);
}

}  // namespace

Guard::Guard() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot create a pipe: {}", std::strerror(errno)),
                "raise the limit of open files: ulimit -n");
  Fd reading(ends[0]);
  line_.reset(ends[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    line_.reset();
    keep_watch(reading.get());
  }
  if (pid_ < 0)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot start a process: {}", std::strerror(errno)),
                "raise the limit of processes: ulimit -u");
}

Guard::~Guard() {
  // Fails only if the guard was killed.
  [[maybe_unused]] const auto written = ::write(line_.get(), &dismissed, sizeof dismissed);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace troupe

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "apps/command.h"

namespace {

/// A run needs a few open files for each of its other processes. The usual soft limit of 1,024
/// exists for select(2), which this program does not use.
void allow_more_open_files() {
  constexpr rlim_t enough = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  ::setrlimit(RLIMIT_NOFILE, &limit);  // on failure the limit stays, and doctor names it
}

}  // namespace

int main(int argc, char** argv) {
  // Line by line into files and pipes as well, so that a run can be followed.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  allow_more_open_files();
  return troupe::run_command(argc, argv);
}

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "apps/command.h"

namespace {

/// A run takes a few open files for each of its other processes; the 1,024 that systems begin with
/// are there for select(2), which nothing here uses.
void allow_more_open_files() {
  constexpr rlim_t enough = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  ::setrlimit(RLIMIT_NOFILE, &limit);  // what it cannot raise stays, and doctor names it
}

}  // namespace

int main(int argc, char** argv) {
  // Line by line into files and pipes as well: whoever follows a run sees what it has said so far.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  allow_more_open_files();
  return troupe::run_command(argc, argv);
}

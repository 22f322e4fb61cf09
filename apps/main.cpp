#include <cstdio>

#include "apps/command.h"

int main(int argc, char** argv) {
  // Line by line into files and pipes as well: whoever follows a run sees what it has said so far.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return troupe::run_command(argc, argv);
}

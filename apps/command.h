#pragma once
#include "runtime/program.h"

namespace troupe {

/// The `troupe` command: chooses a verb and turns what it throws into two lines and an
/// ExitCode. Without a verb it shows its help.
int run_command(int argc, char** argv);

}  // namespace troupe

#pragma once

namespace troupe {

/// Exit codes of the command; scripts rely on them.
enum ExitCode : int {
  exit_done = 0,
  exit_failed = 1,
  exit_usage = 2,     ///< a wrong command line or options file
  exit_stopped = 75,  ///< stopped on request, with a checkpoint to resume from
};

/// The `troupe` command: chooses a verb and turns what it throws into two lines and an exit code.
int run_command(int argc, char** argv);

}  // namespace troupe

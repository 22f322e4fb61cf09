#pragma once
#include <string>
#include <vector>

#include "runtime/program.h"

namespace troupe {

/// The `troupe` command: runs a verb and turns an exception into two lines and an ExitCode. Shows
/// its help when no verb is given.
int run_command(int argc, char** argv);

/// Checks the words of a verb before a launcher starts processes with them. Throws Error (usage)
/// where run_command would.
void check_words(const std::vector<std::string>& words);

}  // namespace troupe

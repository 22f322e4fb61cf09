#pragma once
#include <string>
#include <vector>

#include "runtime/program.h"

namespace troupe {

/// The `troupe` command: chooses a verb and turns what it throws into two lines and an
/// ExitCode. Without a verb it shows its help.
int run_command(int argc, char** argv);

/// Throws Error (usage) where run_command would, for a verb and its words: before many processes
/// start, and each says so.
void check_words(const std::vector<std::string>& words);

}  // namespace troupe

#pragma once
// The verbs of the command, each in a folder of its name. Each adds its subcommand to `app`; when
// that is parsed, it sets `chosen` to the function to run, which returns an ExitCode or throws
// Error.

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "apps/options/definitions.h"

namespace troupe {

/// What a verb is called with besides its arguments.
struct Invocation {
  std::string program;       ///< the first word of the command line
  std::string command_line;  ///< as a shell reads it, for the log
  Definitions own;           ///< what options files may name besides the library's definitions
};
using ChosenVerb = std::function<int(const Invocation& call)>;

/// Checks the words of a verb before a launcher starts processes with them. Throws Error{usage} for
/// words that run_command would refuse.
void check_words(const std::vector<std::string>& words);

void add_doctor_verb(CLI::App& app, ChosenVerb& chosen);
void add_eval_verb(CLI::App& app, ChosenVerb& chosen);
void add_export_verb(CLI::App& app, ChosenVerb& chosen);
void add_fetch_verb(CLI::App& app, ChosenVerb& chosen);
void add_inspect_verb(CLI::App& app, ChosenVerb& chosen);
void add_jobscript_verb(CLI::App& app, ChosenVerb& chosen);
void add_launch_verb(CLI::App& app, ChosenVerb& chosen);
void add_options_verb(CLI::App& app, ChosenVerb& chosen);
void add_plan_verb(CLI::App& app, ChosenVerb& chosen);
void add_train_verb(CLI::App& app, ChosenVerb& chosen);

}  // namespace troupe

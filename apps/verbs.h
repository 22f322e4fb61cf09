#pragma once
// The verbs of the command, each in a folder of its name. Each adds its subcommand to `app`; when
// that is parsed, it sets `chosen` to the function to run. The function takes the command line as a
// shell reads it, for the log, and returns an ExitCode or throws Error.

#include <CLI/App.hpp>
#include <functional>
#include <string>

namespace troupe {

using ChosenVerb = std::function<int(const std::string& command_line)>;

void add_doctor_verb(CLI::App& app, ChosenVerb& chosen);
void add_eval_verb(CLI::App& app, ChosenVerb& chosen);
void add_export_verb(CLI::App& app, ChosenVerb& chosen);
void add_inspect_verb(CLI::App& app, ChosenVerb& chosen);
void add_jobscript_verb(CLI::App& app, ChosenVerb& chosen);
void add_launch_verb(CLI::App& app, ChosenVerb& chosen);
void add_options_verb(CLI::App& app, ChosenVerb& chosen);
void add_plan_verb(CLI::App& app, ChosenVerb& chosen);
void add_train_verb(CLI::App& app, ChosenVerb& chosen);

}  // namespace troupe

#pragma once
// The verbs of the command. Each adds its own subcommand to `app`; when that is parsed, it leaves
// in `chosen` what there is to do, which is given the command line as a shell reads it, for whoever
// keeps a log, and returns an ExitCode or throws Error.

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

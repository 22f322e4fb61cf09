#pragma once
#include "apps/options/definitions.h"
#include "runtime/program.h"

namespace troupe {

/// The `troupe` command, with all its verbs. A program that calls it with definitions of its own
/// *is* the command, and options files may name them:
///
///     int main(int argc, char** argv) {
///       return troupe::run_command(argc, argv, {.models = {Spiral{}}, .datasets = {Points{}}});
///     }
///
/// `launch` starts the same program. Turns an exception into two lines on standard error. Shows its
/// help when no verb is given. Returns an ExitCode. Call it before other threads start.
int run_command(int argc, char** argv, const Definitions& own = {});

}  // namespace troupe

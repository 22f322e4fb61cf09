#include "apps/command.h"

#include <CLI/CLI.hpp>

namespace troupe {

int run_command(int argc, char** argv) {
  CLI::App app("Train neural networks as a troupe of actors", "troupe");
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_done : exit_usage;
  }
  return exit_done;
}

}  // namespace troupe

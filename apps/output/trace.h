#pragma once
#include <filesystem>

#include "runtime/flow/run.h"

namespace troupe {

/// Writes the actions of actors as Chrome's trace-event JSON, for Perfetto
/// (https://ui.perfetto.dev) and chrome://tracing: a row for each actor, a box for each action.
Status write_trace(const std::filesystem::path& path, const RunReport& report);

/// The wall time of each actor in percent: computing, waiting for input, waiting for room on an
/// outgoing edge (a credit), and other waits (a thread, a commit). Names actors that hardly compute
/// in one line.
std::string time_split_table(const RunReport& report);

}  // namespace troupe

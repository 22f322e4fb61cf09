#pragma once
#include <filesystem>

#include "runtime/flow/run.h"

namespace troupe {

/// Writes what actors did as Chrome's trace-event JSON, which Perfetto (https://ui.perfetto.dev)
/// and chrome://tracing show: a row an actor, a box an action with step and micro-batch.
Status write_trace(const std::filesystem::path& path, const RunReport& report);

/// Each actor's wall time as a table, in percent: computing, waiting for input, for a credit, for
/// something else (a commit).
std::string time_split_table(const RunReport& report);

}  // namespace troupe

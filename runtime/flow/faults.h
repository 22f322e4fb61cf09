#pragma once
// The actors that an injected fault names.

#include <string_view>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/run.h"

namespace troupe {

/// Whether FaultOptions::actor names this actor, by its name or by a prefix of it. "reducer" and
/// "reducer/0" name both "reducer/0" and "reducer/0/1"; "stage/1" does not name "stage/12".
bool is_meant(std::string_view named, std::string_view actor);

/// Throws Error{bad_options} for a fault that names none of the graph's actors, with similar names.
void check_faults(const std::vector<FaultOptions>& faults, const Graph& graph);

}  // namespace troupe

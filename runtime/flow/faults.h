#pragma once
// Which actors a fault that is to be injected names.

#include <string_view>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/run.h"

namespace troupe {

/// Whether FaultOptions::actor means this actor: by its name, or by one that it begins with:
/// "reducer" and "reducer/0" mean "reducer/0" and "reducer/0/1", "stage/1" does not mean
/// "stage/12".
bool is_meant(std::string_view named, std::string_view actor);

/// Throws Error{bad_options} for a fault that means none of the graph's actors; names near ones.
void check_faults(const std::vector<FaultOptions>& faults, const Graph& graph);

}  // namespace troupe

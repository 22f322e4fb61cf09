#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/flow/graph.h"

namespace troupe {

/// Why a graph cannot make progress: each entry waits for the next one, the last for the first.
struct Deadlock {
  std::vector<std::string> cycle;  ///< "stage/0 B waits for a message on …"
  std::string remedy;              ///< the edge that needs more slots, if more slots can help
};

std::string to_string(const Deadlock& deadlock);

/// Decides from firing rules and slots whether the graph can deadlock.
///
/// Actors with fixed rates are a synchronous dataflow graph; such a graph is live exactly if one
/// whole iteration can be simulated: E. A. Lee, D. G. Messerschmitt, "Static scheduling of
/// synchronous data flow programs for digital signal processing", IEEE Trans. Computers C-36(1),
/// 1987, section III. The messages of an edge are tokens in one place of the net, and its free
/// slots are tokens in another. The transition that releases a message adds a free slot.
///
/// Throws Error{bad_graph} if the rates at the ends of an edge contradict each other: no number of
/// slots would be enough.
std::optional<Deadlock> find_deadlock(const Graph& graph);

}  // namespace troupe

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/flow/graph.h"

namespace troupe {

/// Why a graph stands still: each entry waits for the next, the last for the first.
struct Deadlock {
  std::vector<std::string> cycle;  ///< "stage/0 B waits for a message on …"
  std::string remedy;              ///< the edge whose slots are short, if more slots can help
};

std::string to_string(const Deadlock& deadlock);

/// Decides from firing rules and slots alone whether the graph can go on for ever.
///
/// Actors with fixed rates are a synchronous dataflow graph; such a graph is live exactly if one
/// whole iteration can be played: E. A. Lee, D. G. Messerschmitt, "Static scheduling of synchronous
/// data flow programs for digital signal processing", IEEE Trans. Computers C-36(1), 1987,
/// section III. Space in an edge is a place of tokens like data is, given back by the transition
/// that releases the message.
///
/// Throws Error{bad_graph} when the rates around an edge contradict each other, so that messages
/// would pile up whatever the slots.
std::optional<Deadlock> find_deadlock(const Graph& graph);

}  // namespace troupe

#pragma once
// What the processes of a run must agree on before they send the first tensor.

#include <chrono>
#include <string>

#include "runtime/control/member.h"
#include "runtime/flow/bridge.h"
#include "runtime/flow/graph.h"
#include "runtime/transport/topology.h"

namespace troupe {

/// The placement and routes of a run, one line each. First the actors with their ranks, then the
/// edges in the order of their numbers, below the communicator that carries them. Messages refer to
/// actors and edges by number, so two processes can communicate only if their descriptions are
/// equal. Sizes are not part of the description: a message describes its tensors, and the receiver
/// allocates them. Throws Error{unsupported} for an edge whose tensors no transport carries.
std::string run_description(const Graph& graph, const Placement& placement,
                            const TransportTopology& topology);

/// Every process calls it before it connects to the others. Error{bad_graph} if the description of
/// this process differs from that of rank 0: it names both processes and the first difference.
Status check_same_description(Member& member, const std::string& description,
                              std::chrono::milliseconds timeout);

}  // namespace troupe

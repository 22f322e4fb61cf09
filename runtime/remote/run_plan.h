#pragma once
// What the processes of a run must agree on before the first tensor is sent.

#include <string>

#include "runtime/control/member.h"
#include "runtime/flow/bridge.h"
#include "runtime/flow/graph.h"
#include "runtime/remote/transport_options.h"

namespace troupe {

/// Who lives where and what travels how, a line each: first the actors with their processes, then
/// for each communicator of the bulk plane (and for what stays within a process) its edges in the
/// order of their numbers. Messages name actors and edges by number, so two processes understand
/// each other if and only if they have worked out the same text. Sizes are no part of it: a message
/// says which tensors it has, and the receiver makes room for these.
std::string run_plan(const Graph& graph, const Placement& placement, const Member& member,
                     TransportKind transport);

/// Every process calls it, before it connects to the others. Error{bad_graph} where this process
/// has another plan than rank 0: names both and the first line that differs.
Status check_same_plan(Member& member, const std::string& plan, std::chrono::milliseconds timeout);

}  // namespace troupe

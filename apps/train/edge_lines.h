#pragma once
// The edges of a run as lines of its log (log.level debug).

#include <string>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/report.h"
#include "runtime/remote/transport_options.h"

namespace troupe {

class Member;

/// One line for each edge: actors, processes with their hosts, the route, slots and bytes.
/// `member` is null in a run of one process.
std::vector<std::string> edge_lines(const Graph& graph, const Member* member,
                                    const TransportOptions& options);

/// One line for each edge: how many messages the run has sent, and at most how many bytes.
/// `report` is that of process 0.
std::vector<std::string> message_lines(const Graph& graph, const RunReport& report);

}  // namespace troupe

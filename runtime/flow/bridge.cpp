#include "runtime/flow/bridge.h"

#include <fmt/format.h>

namespace troupe {

void check_placement(const Graph& graph, const Placement& placement) {
  const auto& nodes = graph.nodes();
  if (placement.process.size() != nodes.size())
    throw Error(ErrorCode::bad_graph, fmt::format("the placement names {} actors, the graph has {}",
                                                  placement.process.size(), nodes.size()));
  for (std::size_t node = 0; node < nodes.size(); ++node)
    if (placement.process[node] >= placement.processes)
      throw Error(ErrorCode::bad_graph,
                  fmt::format("{} is placed in process {} of {}", nodes[node].name,
                              placement.process[node], placement.processes),
                  "processes are numbered from 0");
  for (std::size_t edge = 0; edge < graph.edges().size(); ++edge) {
    const auto& [from, to, output, input, options, codec] = graph.edges()[edge];
    if (placement.of(from) != placement.of(to) && !codec)
      throw Error(
          ErrorCode::bad_graph,
          fmt::format("{} goes from process {} to {}, but its messages cannot leave one",
                      graph.edge_name(edge), placement.of(from), placement.of(to)),
          "list the type's members (runtime/flow/payload.h), or place both actors together");
  }
}

}  // namespace troupe

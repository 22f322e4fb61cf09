#include "runtime/flow/bridge.h"

#include <fmt/format.h>

namespace troupe {

Placement::Placement(const Graph& graph, std::uint32_t here, std::uint32_t processes)
    : here_(here), processes_(processes) {
  for (const auto& node : graph.nodes()) {
    process_.push_back(processes == 1 ? 0 : node.process);
    if (process_.back() >= processes)
      throw Error(
          ErrorCode::bad_graph,
          fmt::format("{} is placed in process {} of {}", node.name, node.process, processes),
          "processes are numbered from 0");
  }
  for (std::size_t edge = 0; edge < graph.edges().size(); ++edge) {
    const Graph::Edge& link = graph.edges()[edge];
    if (of(link.from) != of(link.to) && !link.codec)
      throw Error(
          ErrorCode::bad_graph,
          fmt::format("{} goes from process {} to {}, but its messages cannot leave one",
                      graph.edge_name(edge), of(link.from), of(link.to)),
          "list the type's members (runtime/flow/payload.h), or place both actors together");
  }
}

}  // namespace troupe

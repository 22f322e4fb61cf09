#include "runtime/flow/bridge.h"

#include <fmt/format.h>

namespace troupe {

Placement::Placement(const Graph& graph, std::uint32_t here, std::uint32_t processes)
    : here_(here), processes_(processes) {
  for (const auto& actor : graph.actors()) {
    process_.push_back(processes == 1 ? 0 : actor.process);
    if (process_.back() >= processes)
      throw Error(
          ErrorCode::bad_graph,
          fmt::format("actor {} is placed in process {}, but the processes of this run are 0 to {}",
                      actor.name, actor.process, processes - 1),
          "place it in one of these processes, or start more");
  }
  for (std::size_t edge = 0; edge < graph.edges().size(); ++edge) {
    const Graph::Edge& link = graph.edges()[edge];
    if (of(link.from) != of(link.to) && !link.codec)
      throw Error(
          ErrorCode::bad_graph,
          fmt::format("{} goes from rank {} to {}, but its messages cannot leave their process",
                      graph.edge_name(edge), of(link.from), of(link.to)),
          "list the members of the message type (runtime/flow/wire.h), or place both actors in one "
          "process");
  }
}

}  // namespace troupe

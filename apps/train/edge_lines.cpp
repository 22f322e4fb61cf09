#include "apps/train/edge_lines.h"

#include <fmt/format.h>

#include "runtime/bytes_text.h"
#include "runtime/remote/data_plane.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// "rank 0 on a to rank 2 on b, Gloo from 10.0.0.1 to 10.0.0.2".
std::string route_text(const Graph& graph, const Graph::Edge& edge, const Member* member,
                       const TransportOptions& options) {
  const auto from = graph.actors()[edge.from].process, to = graph.actors()[edge.to].process;
  if (!member || from == to)
    return member ? fmt::format("within rank {}", from) : "within the process";
  const auto& processes = member->processes();
  const auto route = topology_of(*member, options)
                         .between(static_cast<int>(from), static_cast<int>(to), edge.options.device)
                         .title;
  const std::string places = fmt::format("rank {} on {} to rank {} on {}, {}", from,
                                         processes[from].host(), to, processes[to].host(), route);
  if (processes[from].identity() == processes[to].identity()) return places;
  return fmt::format("{} from {} to {}", places, processes[from].address(),
                     processes[to].address());
}

/// Nothing where the plan does not know the bytes of an edge.
std::string bytes_after(std::string_view words, std::size_t bytes) {
  return bytes == 0 ? "" : fmt::format("{}{}", words, bytes_text(bytes));
}

}  // namespace

std::vector<std::string> edge_lines(const Graph& graph, const Member* member,
                                    const TransportOptions& options) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < graph.edges().size(); ++i) {
    const Graph::Edge& edge = graph.edges()[i];
    const auto slots = counted(edge.options.slots, "slot");
    lines.push_back(fmt::format("edge {}: {}; {}{}", graph.edge_name(i),
                                route_text(graph, edge, member, options), slots,
                                bytes_after(" of ", edge.options.slot_bytes)));
  }
  return lines;
}

std::vector<std::string> message_lines(const Graph& graph, const RunReport& report) {
  std::vector<std::string> lines;
  std::vector<std::size_t> next(graph.actors().size());
  for (std::size_t i = 0; i < graph.edges().size(); ++i) {
    const Graph::Edge& edge = graph.edges()[i];
    const auto& sent = report.actors.at(edge.from).sent;
    const std::size_t at = next[edge.from]++;
    if (at >= sent.size()) continue;  // its process ended without a report
    lines.push_back(fmt::format(
        "edge {}: {}{}", graph.edge_name(i),
        counted(static_cast<std::int64_t>(sent[at]), "message"),
        bytes_after(", at most ", static_cast<std::size_t>(sent[at]) * edge.options.slot_bytes)));
  }
  return lines;
}

}  // namespace troupe

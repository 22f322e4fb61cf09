#include "runtime/remote/run_description.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "runtime/file/digest.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// What carries an edge: "shared memory between ranks 0-3:".
std::string heading(const TransportTopology& topology, int from, int to, Device device) {
  if (from == to) return "within a process:";
  const Transport& transport = topology.between(from, to, device);
  for (const auto& group : topology.groups_of(from, device))
    if (group.transport == &transport)
      return fmt::format("{} between ranks {}:", transport.title, ranges(group.ranks));
  return {};
}

Error other_graph(const Member& member, const std::string& own, const std::string& first) {
  const auto [here, there] = first_difference(own, first);
  const auto& processes = member.processes();
  return {
      ErrorCode::bad_graph,
      fmt::format("rank {} on {} has a different graph from rank 0 on {}: '{}' here, '{}' "
                  "there",
                  member.rank(), processes.at(static_cast<std::size_t>(member.rank())).host(),
                  processes.front().host(), here, there),
      "start all processes from the same program, in the same version, with the same arguments"};
}

}  // namespace

std::string run_description(const Graph& graph, const Placement& placement,
                            const TransportTopology& topology) {
  std::string text;
  for (std::size_t actor = 0; actor < graph.actors().size(); ++actor)
    text += fmt::format("actor {}: {} on rank {}\n", actor, graph.actors()[actor].name,
                        placement.of(actor));
  // By sender, receiver and name of the device.
  std::map<std::tuple<int, int, std::string>, std::string> headings;
  std::map<std::string, std::string> edges;  // by heading
  for (std::size_t e = 0; e < graph.edges().size(); ++e) {
    const Graph::Edge& edge = graph.edges()[e];
    const int from = static_cast<int>(placement.of(edge.from));
    const int to = static_cast<int>(placement.of(edge.to));
    const Device device = edge.options.device;
    std::string& carrier = headings[{from, to, to_string(device)}];
    if (carrier.empty()) carrier = heading(topology, from, to, device);
    edges[carrier] += fmt::format("edge {}: {}, rank {} to {}, {} slots\n", e, graph.edge_name(e),
                                  from, to, edge.options.slots);
  }
  for (const auto& [carrier, lines] : edges) text += fmt::format("{}\n{}", carrier, lines);
  return text;
}

Status check_same_description(Member& member, const std::string& description,
                              std::chrono::milliseconds timeout) {
  Store& store = member.store();
  const std::string key = fmt::format("run/description/{}", member.generation());
  const std::string text_key = key + "/text";  // only asked for where the digests differ
  const std::string digest = text_digest(description);
  if (member.rank() == 0) {
    Status stored = store.put(text_key, description);
    return stored ? store.put(key, digest) : stored;
  }
  const auto expected = store.get(key, timeout);
  if (!expected) return expected.error();
  if (expected.value() == digest) return success();
  const auto text = store.get(text_key, timeout);
  if (!text) return text.error();
  return other_graph(member, description, text.value());
}

}  // namespace troupe

#include "runtime/remote/run_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "runtime/file/digest.h"
#include "runtime/remote/ways.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// The communicator that carries what goes from one process to another, by its members.
std::string way_between(const Ways& ways, const Member& member, int from, int to) {
  if (from == to) return "within a process:";
  if (ways.share_memory(from, to))
    return fmt::format("by the shared memory of ranks {}:",
                       fmt::join(ways.sharing_memory_with(from), ", "));
  return fmt::format("by Gloo between all {} processes:", member.size());
}

Error other_plan(const Member& member, const std::string& own, const std::string& first) {
  const auto [here, there] = first_difference(own, first);
  const auto& peers = member.peers();
  return {ErrorCode::bad_graph,
          fmt::format("rank {} on {} has another graph than rank 0 on {}: '{}' here, '{}' "
                      "there",
                      member.rank(), peers.at(static_cast<std::size_t>(member.rank())).host(),
                      peers.front().host(), here, there),
          "start all processes from the same program, in the same version, with the same options"};
}

}  // namespace

std::string run_plan(const Graph& graph, const Placement& placement, const Member& member,
                     TransportKind transport) {
  std::string plan;
  for (std::size_t node = 0; node < graph.actors().size(); ++node)
    plan += fmt::format("actor {}: {} on rank {}\n", node, graph.actors()[node].name,
                        placement.of(node));
  const Ways ways(member, transport);
  std::map<std::string, std::string> lines;  // by communicator
  for (std::size_t e = 0; e < graph.edges().size(); ++e) {
    const Graph::Edge& edge = graph.edges()[e];
    const int from = static_cast<int>(placement.of(edge.from));
    const int to = static_cast<int>(placement.of(edge.to));
    lines[way_between(ways, member, from, to)] +=
        fmt::format("edge {}: {}, rank {} to {}, {} slots\n", e, graph.edge_name(e), from, to,
                    edge.options.slots);
  }
  for (const auto& [way, edges] : lines) plan += fmt::format("{}\n{}", way, edges);
  return plan;
}

Status check_same_plan(Member& member, const std::string& plan, std::chrono::milliseconds timeout) {
  Store& store = member.store();
  const std::string key = fmt::format("run/plan/{}", member.generation());
  const std::string text_key = key + "/text";  // asked for by those who differ alone
  const std::string digest = text_digest(plan);
  if (member.rank() == 0) {
    Status told = store.put(text_key, plan);
    return told ? store.put(key, digest) : told;
  }
  const auto expected = store.get(key, timeout);
  if (!expected) return expected.error();
  if (expected.value() == digest) return success();
  const auto text = store.get(text_key, timeout);
  if (!text) return text.error();
  return other_plan(member, plan, text.value());
}

}  // namespace troupe

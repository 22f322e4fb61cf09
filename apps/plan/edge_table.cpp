// The table of edges that `troupe plan` prints.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/plan/planned_run.h"
#include "runtime/bytes_text.h"
#include "runtime/print.h"

namespace troupe {
namespace {

/// Of a terminal: the bytes of UTF-8 that begin a character.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char byte) { return (byte & 0xc0) != 0x80; }));
}

/// How far an edge's messages go.
enum class Reach : std::uint8_t { process, host, beyond };

Reach reach_of(const PlannedRun& run, const Graph::Edge& edge) {
  const std::uint32_t from = run.graph.actors()[edge.from].process;
  const std::uint32_t to = run.graph.actors()[edge.to].process;
  if (from == to) return Reach::process;
  return run.host_of(from) == run.host_of(to) ? Reach::host : Reach::beyond;
}

/// A row of the table: an edge, or as many as are alike but for their replicas.
struct EdgeRow {
  std::string from, from_port, to, to_port;  ///< actors without the number of their replica
  int from_replica = -1, to_replica = -1;    ///< -1: has none; several: of more than one
  EdgeOptions edge;
  Reach reach = Reach::process;
  int count = 1;

  bool is_like(const EdgeRow& other) const {
    return from == other.from && from_port == other.from_port && to == other.to &&
           to_port == other.to_port && reach == other.reach && edge.slots == other.edge.slots &&
           edge.slot_bytes == other.edge.slot_bytes && edge.step_bytes == other.edge.step_bytes;
  }
  void add(const EdgeRow& other) {
    if (from_replica != other.from_replica) from_replica = several;
    if (to_replica != other.to_replica) to_replica = several;
    ++count;
  }
  std::string name() const {
    const auto number = [](int replica) {
      if (replica < 0) return std::string();
      return replica == several ? "/#" : fmt::format("/{}", replica);
    };
    return fmt::format("{}{}{} → {}{}{}", from, number(from_replica), from_port, to,
                       number(to_replica), to_port);
  }
  static constexpr int several = 1 << 30;
};

/// Takes the number of its replica from an actor's name; -1 where it has none: a writer's is that
/// of its stage.
int take_number(std::string& name) {
  if (name.starts_with("writer")) return -1;
  const auto slash = name.rfind('/');
  if (slash == name.npos || name.find_first_not_of("0123456789", slash + 1) != name.npos) return -1;
  const int number = std::stoi(name.substr(slash + 1));
  name.resize(slash);
  return number;
}

EdgeRow row_of(const PlannedRun& run, std::size_t index) {
  const Graph::Edge& edge = run.graph.edges()[index];
  const std::string whole = run.graph.edge_name(index);
  EdgeRow row{.from = run.graph.actors()[edge.from].name,
              .from_port = {},
              .to = run.graph.actors()[edge.to].name,
              .to_port = {},
              .edge = edge.options,
              .reach = reach_of(run, edge)};
  constexpr std::string_view arrow = " → ";
  const auto middle = whole.find(arrow);
  row.from_port = whole.substr(row.from.size(), middle - row.from.size());
  row.to_port = whole.substr(middle + arrow.size() + row.to.size());
  if (run.pipeline.replicas > 1) {
    row.from_replica = take_number(row.from);
    row.to_replica = take_number(row.to);
  }
  return row;
}

std::vector<EdgeRow> edge_rows(const PlannedRun& run) {
  std::vector<EdgeRow> rows;
  for (std::size_t i = 0; i < run.graph.edges().size(); ++i) {
    const EdgeRow row = row_of(run, i);
    const auto like = std::ranges::find_if(rows, [&](const auto& r) { return r.is_like(row); });
    if (like == rows.end())
      rows.push_back(row);
    else
      like->add(row);
  }
  return rows;
}

}  // namespace

void print_edges(const PlannedRun& run) {
  constexpr const char* marks[] = {"", " *", " **"};
  std::size_t widest = 46, within_hosts = 0, between_hosts = 0;
  const std::vector<EdgeRow> rows = edge_rows(run);
  for (const EdgeRow& row : rows) widest = std::max(widest, columns_of(row.name()));
  const bool folded = std::ranges::any_of(rows, [](const EdgeRow& row) { return row.count > 1; });
  print_out("\n{}{:{}}{:>5}{:>10}{:>10}\n",
            folded ? "edge (#: each replica; 2×4: two of 4 slots)" : "edge", "",
            widest - (folded ? 43 : 4), "slots", "per slot", "per step");
  for (const EdgeRow& row : rows) {
    const std::string name = row.name();
    const std::string slots = row.count == 1 ? std::to_string(row.edge.slots)
                                             : fmt::format("{}×{}", row.count, row.edge.slots);
    constexpr std::size_t slots_width = 5;
    const std::size_t used = columns_of(name) + columns_of(slots);
    const std::size_t gap = widest + slots_width > used ? widest + slots_width - used : 1;
    print_out("{}{:{}}{}{:>10}{:>10}{}\n", name, "", gap, slots, bytes_text(row.edge.slot_bytes),
              bytes_text(row.edge.step_bytes), marks[static_cast<std::size_t>(row.reach)]);
    const std::size_t bytes = row.edge.step_bytes * static_cast<std::size_t>(row.count);
    if (row.reach == Reach::host) within_hosts += bytes;
    if (row.reach == Reach::beyond) between_hosts += bytes;
  }
  if (std::ranges::any_of(rows, [](const EdgeRow& row) { return row.edge.step_bytes == 0; }))
    print_out("0 B: a few numbers, or for checkpoints a reference to the weights of a stage\n");
  const auto used = [&](Reach reach) {
    return std::ranges::any_of(rows, [&](const EdgeRow& row) { return row.reach == reach; });
  };
  if (used(Reach::host))
    print_out("* to another process of the host, by {}: {} per step\n",
              run.topology.between(0, 1, Device::cpu()).title, bytes_text(within_hosts));
  if (used(Reach::beyond))
    print_out("** to another host, by {}: {} per step\n",
              run.topology.between(0, run.processes_per_host, Device::cpu()).title,
              bytes_text(between_hosts));
}

}  // namespace troupe

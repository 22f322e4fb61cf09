#include "apps/output/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/file/file.h"
#include "runtime/text.h"

namespace troupe {
namespace {

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// In the order of the data; actors of other kinds come last.
std::vector<const ActorReport*> in_reading_order(const std::vector<ActorReport>& actors) {
  constexpr std::array<std::string_view, 6> order{"loader",  "stage",   "loss",
                                                  "reducer", "monitor", "writer"};
  const auto rank = [&](const ActorReport* actor) {
    return std::ranges::find(order, std::string_view(actor->name).substr(0, actor->name.find('/')));
  };
  std::vector<const ActorReport*> sorted;
  sorted.reserve(actors.size());
  for (const ActorReport& actor : actors) sorted.push_back(&actor);
  std::ranges::stable_sort(sorted, {}, rank);
  return sorted;
}

}  // namespace

Status write_trace(const std::filesystem::path& path, const RunReport& report) {
  std::string json = "{\"traceEvents\": [\n";
  for (std::size_t actor = 0; actor < report.actors.size(); ++actor)
    json += fmt::format(
        R"({{"name": "thread_name", "ph": "M", "pid": 1, "tid": {}, "args": {{"name": "{}"}}}},)"
        "\n",
        actor, report.actors[actor].name);
  for (const TraceEvent& event : report.trace) {
    const MessageKey& key = event.key;
    json += fmt::format(
        R"({{"name": "{} {}", "cat": "{}", "ph": "X", "pid": 1, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{"step": {}, "micro_batch": {}}}}},)"
        "\n",
        event.name, key.micro_batch, key.purpose == Purpose::train ? "train" : "evaluate",
        event.actor, microseconds(event.begin), microseconds(event.end - event.begin), key.step,
        key.micro_batch);
  }
  json += R"({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "troupe"}})"
          "\n], \"displayTimeUnit\": \"ms\"}\n";
  return write_file(path, std::as_bytes(std::span(json)));
}

std::string time_split_table(const RunReport& report) {
  constexpr double little = 0.5, much = 10.0;  // percent
  std::string table = fmt::format("time of actors  {:>11}{:>13}{:>14}{:>9}{:>11}\n", "computing",
                                  "needs input", "needs credit", "other", "actions");
  std::vector<std::string> idle;
  bool waited_for_threads = false;
  for (const ActorReport* actor : in_reading_order(report.actors)) {
    const auto share = [&](std::chrono::nanoseconds part) {
      const auto total = actor->time.total().count();
      return total > 0 ? 100.0 * static_cast<double>(part.count()) / static_cast<double>(total)
                       : 0.0;
    };
    const double other = share(actor->time.other);
    if (share(actor->time.compute) < little && other < much) {
      idle.push_back(actor->name);
      continue;
    }
    table += fmt::format("{:<16}{:>9.1f} %{:>11.1f} %{:>12.1f} %{:>7.1f} %{:>11}\n", actor->name,
                         share(actor->time.compute), share(actor->time.no_input),
                         share(actor->time.no_credit), other, actor->actions);
    waited_for_threads = waited_for_threads || other > much;
  }
  if (!idle.empty()) table += fmt::format("below {} % computing: {}\n", little, listed(idle));
  if (waited_for_threads) table += "other: waiting for a thread, a core or the end of a step\n";
  return table;
}

}  // namespace troupe

#include "apps/output/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
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

/// The word for a label of one letter; other labels are words.
std::string_view word_of(std::string_view label) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> words{
      {{"F", "forward"},
       {"B", "backward"},
       {"W", "weight gradient"},
       {"E", "evaluate"},
       {"Q", "norm"},
       {"N", "norm"},
       {"U", "update"},
       {"S", "snapshot"},
       {"L", "loss"},
       {"R", "reduce"}}};
  const auto found =
      std::ranges::find(words, label, &std::pair<std::string_view, std::string_view>::first);
  return found == words.end() ? label : found->second;
}

/// An actor's row: its name, and its place among the rows.
std::string row(std::size_t actor, std::string_view name, std::size_t place) {
  return fmt::format(
      R"({{"name": "thread_name", "ph": "M", "pid": 1, "tid": {0}, "args": {{"name": "{1}"}}}},)"
      "\n"
      R"({{"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": {0}, "args": {{"sort_index": {2}}}}},)"
      "\n",
      actor, name, place);
}

}  // namespace

Status write_trace(const std::filesystem::path& path, const RunReport& report) {
  std::string json = "{\"traceEvents\": [\n";
  const std::vector<const ActorReport*> rows = in_reading_order(report.actors);
  for (std::size_t place = 0; place < rows.size(); ++place)
    json +=
        row(static_cast<std::size_t>(rows[place] - report.actors.data()), rows[place]->name, place);
  for (const TraceEvent& event : report.trace) {
    const MessageKey& key = event.key;
    json += fmt::format(
        R"({{"name": "{} {}", "cat": "{}", "ph": "X", "pid": 1, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{"step": {}, "micro_batch": {}}}}},)"
        "\n",
        word_of(event.name), key.micro_batch, key.purpose == Purpose::train ? "train" : "evaluate",
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
  bool waited_for_threads = false, waited_for_slots = false;
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
    waited_for_slots = waited_for_slots || share(actor->time.no_credit) > much;
  }
  if (!idle.empty()) table += fmt::format("below {} % computing: {}\n", little, listed(idle));
  if (waited_for_slots) table += "needs credit: waiting for a free slot of the actor after it\n";
  if (waited_for_threads) table += "other: waiting for a thread, a core or the end of a step\n";
  return table;
}

}  // namespace troupe

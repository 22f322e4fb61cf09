#include "apps/output/trace.h"

#include <fmt/format.h>

#include <span>

#include "runtime/file/file.h"

namespace troupe {
namespace {

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
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
    const MessageKey& key = event.label.key;
    json += fmt::format(
        R"({{"name": "{} {}", "cat": "{}", "ph": "X", "pid": 1, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{"step": {}, "micro_batch": {}}}}},)"
        "\n",
        event.label.name, key.micro_batch, key.purpose == Purpose::train ? "train" : "evaluate",
        event.actor, microseconds(event.begin), microseconds(event.end - event.begin), key.step,
        key.micro_batch);
  }
  json += R"({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "troupe"}})"
          "\n], \"displayTimeUnit\": \"ms\"}\n";
  return write_file(path, std::as_bytes(std::span(json)));
}

std::string time_split_table(const RunReport& report) {
  std::string table = fmt::format("{:<14}{:>9}{:>10}{:>11}{:>8}{:>11}\n", "actor", "compute",
                                  "no input", "no credit", "other", "actions");
  for (const ActorReport& actor : report.actors) {
    const auto share = [&](std::chrono::nanoseconds part) {
      const auto total = actor.time.total().count();
      return total > 0 ? 100.0 * static_cast<double>(part.count()) / static_cast<double>(total)
                       : 0.0;
    };
    table += fmt::format("{:<14}{:>7.1f} %{:>8.1f} %{:>9.1f} %{:>6.1f} %{:>11}\n", actor.name,
                         share(actor.time.compute), share(actor.time.no_input),
                         share(actor.time.no_credit), share(actor.time.other), actor.actions);
  }
  return table;
}

}  // namespace troupe

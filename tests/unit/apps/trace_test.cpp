// What trace.json holds, as Perfetto reads it.
#include "apps/output/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

TEST(Trace, ShowsActionsByWordsAndActorsInTheOrderOfTheData) {
  RunReport report;
  for (const char* name : {"reducer/0", "own", "loss", "stage/0", "stage/1", "loader"})
    report.actors.push_back({.name = name});
  const auto add = [&](std::size_t actor, const char* label, std::uint32_t micro_batch) {
    report.trace.push_back({.actor = actor,
                            .name = label,
                            .key = {7, Purpose::train, micro_batch},
                            .begin = std::chrono::microseconds(5),
                            .end = std::chrono::microseconds(9)});
  };
  add(3, "F", 0);
  add(4, "B", 1);
  add(5, "load", 2);
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_trace(folder / "trace.json", report));

  std::map<std::string, int> places;
  std::map<int, std::string> names;
  std::vector<std::string> actions;
  const auto trace = nlohmann::json::parse(test::read_text(folder / "trace.json"));
  for (const auto& event : trace.at("traceEvents")) {
    const int actor = event.value("tid", -1);
    if (event.at("name") == "thread_name") names[actor] = event["args"]["name"];
    if (event.at("name") == "thread_sort_index") places[names[actor]] = event["args"]["sort_index"];
    if (event.at("ph") == "X") {
      actions.push_back(names[actor] + ": " + event["name"].get<std::string>());
      EXPECT_EQ(event["args"]["step"], 7);
      EXPECT_EQ(event["ts"], 5.0);
      EXPECT_EQ(event["dur"], 4.0);
    }
  }
  const std::vector<std::string> expected = {"stage/0: forward 0", "stage/1: backward 1",
                                             "loader: load 2"};
  EXPECT_EQ(actions, expected);
  const std::map<std::string, int> in_order = {{"loader", 0}, {"stage/0", 1},   {"stage/1", 2},
                                               {"loss", 3},   {"reducer/0", 4}, {"own", 5}};
  EXPECT_EQ(places, in_order);
}

TEST(TimeTable, ExplainsCreditAndOtherTimesOnlyWhereActorsSpentThem) {
  using std::chrono::milliseconds;
  RunReport report;
  report.actors.push_back({.name = "stage/0",
                           .time = {.compute = milliseconds(80), .no_input = milliseconds(20)},
                           .actions = 12});
  const std::string quiet = time_split_table(report);
  EXPECT_NE(quiet.find("stage/0              80.0 %       20.0 %"), quiet.npos) << quiet;
  EXPECT_EQ(quiet.find("needs credit:"), quiet.npos) << quiet;
  EXPECT_EQ(quiet.find("other:"), quiet.npos) << quiet;

  report.actors.push_back(
      {.name = "loader", .time = {.compute = milliseconds(10), .no_credit = milliseconds(90)}});
  const std::string waiting = time_split_table(report);
  EXPECT_NE(waiting.find("needs credit: waiting for a free slot"), waiting.npos) << waiting;
  EXPECT_EQ(waiting.find("other:"), waiting.npos) << waiting;

  report.actors.push_back(
      {.name = "own", .time = {.compute = milliseconds(50), .other = milliseconds(50)}});
  const std::string busy = time_split_table(report);
  EXPECT_NE(busy.find("other: waiting for a thread"), busy.npos) << busy;
}

}  // namespace
}  // namespace troupe

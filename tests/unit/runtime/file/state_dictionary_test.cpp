#include "runtime/file/state_dictionary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using test::expect_error;

const StateDictionary state{.path = "state", .tensors = 3, .weights = 2};
const StateDictionary empty{.path = "empty"};

std::size_t find(const std::vector<StateDictionary>& dictionaries) {
  return find_state_dictionary(dictionaries, "w.pt").place;
}

TEST(StateDictionaryChoice, IsTheWholeIfItHoldsTensors) {
  EXPECT_EQ(find({state}), 0u);
  EXPECT_EQ(find({{.tensors = 1, .weights = 1, .children = {{"ema", 1}}}, state}), 0u);
}

TEST(StateDictionaryChoice, PrefersKnownKeysToTensorsBesideThem) {
  EXPECT_EQ(
      find({{.tensors = 1, .weights = 1, .children = {{"ema", 1}, {"model", 2}}}, state, state}),
      2u);
  EXPECT_EQ(find({{.children = {{"model", 1}}}, {.children = {{"state_dict", 2}}}, state}), 2u);
}

TEST(StateDictionaryChoice, TakesAnUnknownKeyIfItIsTheOnlyOne) {
  EXPECT_EQ(find({{.children = {{"args", 1}, {"student", 2}}}, empty, state}), 2u);
}

TEST(StateDictionaryChoice, LeavesOptimizersOut) {
  EXPECT_EQ(
      find({{.children = {{"optimizer", 1}, {"optim_state", 1}, {"student", 2}}}, state, state}),
      2u);
  for (const char* key : {"scheduler", "lr_scheduler", "scheduler_state"})
    EXPECT_EQ(find({{.children = {{key, 1}, {"student", 2}}}, state, state}), 2u) << key;
  expect_error(ErrorCode::bad_file, {"no dictionary of tensors"}, [] {
    find({{.children = {{"optimizer", 1}}}, state});
  });
}

TEST(StateDictionaryChoice, TakesIntegersIfThereIsNothingElse) {
  const StateDictionary integers{.path = "integers", .tensors = 1};
  EXPECT_EQ(find({{.children = {{"a", 1}}}, integers}), 1u);
  EXPECT_EQ(find({{.children = {{"a", 1}, {"b", 2}}}, integers, state}), 2u);
}

TEST(StateDictionaryChoice, ListsThoseThatFitEqually) {
  for (const auto& [a, b] : {std::pair("model", "state_dict"), std::pair("student", "teacher")})
    expect_error(ErrorCode::bad_file, {"w.pt", fmt::format("{}, {}", a, b)}, [&, a = a, b = b] {
      find({{.children = {{a, 1}, {b, 2}}}, state, state});
    });
}

TEST(StateDictionaryChoice, TakesTheOneWhoseKeyIsGiven) {
  StateDictionary left = state, right = state;
  left.path = "left";
  right.path = "right";
  const std::vector<StateDictionary> both{{.children = {{"left", 1}, {"right", 2}}}, left, right};
  EXPECT_EQ(find_state_dictionary(both, "w.pt", "right").place, 2u);
  expect_error(ErrorCode::bad_file,
               {"no weights under the key 'ema'; it has some under left, right"},
               [&] { find_state_dictionary(both, "w.pt", "ema"); });
  expect_error(ErrorCode::bad_file, {"several", "'w.pt#left'"}, [&] { find(both); });
}

TEST(StateDictionaryChoice, TakesADictionaryUnderTwoKeysOnce) {
  const std::vector<StateDictionary> same{{.children = {{"model", 1}, {"state_dict", 1}}}, state};
  EXPECT_EQ(find_state_dictionary(same, "w.pt").path, "model");
  EXPECT_EQ(find_state_dictionary(same, "w.pt", "state_dict").path, "state_dict");
}

TEST(StateDictionaryChoice, FollowsKeysThatContainDots) {
  const std::vector<StateDictionary> nested{{.children = {{"a", 1}, {"a.b", 2}}},
                                            {.children = {{"c", 3}}},
                                            {.children = {{"c", 3}}},
                                            state};
  EXPECT_EQ(find_state_dictionary(nested, "w.pt", "a.b.c").place, 3u);
  EXPECT_EQ(find_state_dictionary(nested, "w.pt", "a.c").place, 3u);
  expect_error(ErrorCode::bad_file, {"no weights under the key 'a.b.'"},
               [&] { find_state_dictionary(nested, "w.pt", "a.b."); });
}

}  // namespace
}  // namespace troupe

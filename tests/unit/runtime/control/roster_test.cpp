// Who has come, and which ranks a world gives.
#include "runtime/control/detail/roster.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace troupe {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

wire::Join join_of(const std::string& host, std::uint32_t local_rank) {
  wire::Join join;
  join.set_run("run");
  join.set_size(4);
  join.set_host(host);
  join.set_local_rank(local_rank);
  return join;
}

TEST(ControlRoster, CountsThoseOfAHostThatAskedForNoRank) {
  const auto join = [](const char* host, int rank) {
    wire::Join made;
    made.set_run("test");
    made.set_size(9);
    made.set_host(host);
    made.set_rank(static_cast<std::uint32_t>(rank + 1));
    return made;
  };
  for (const bool of_launchers : {false, true}) {
    control::Roster roster("test", 9, of_launchers);
    std::uint64_t session = 0;
    for (const auto& one :
         {join("alpha", 3), join("alpha", -1), join("alpha", -1), join("beta", -1)})
      ASSERT_FALSE(roster.admit(one, ++session));
    EXPECT_THAT(
        roster.timeout(milliseconds(2500)).message(),
        HasSubstr(fmt::format("did not join within 2.5 s; joined: alpha ({0} 3 and 2 without "
                              "a {0}), beta (1 without a {0})",
                              of_launchers ? "node rank" : "rank")));
  }
}

TEST(ControlRoster, GivesRanksByHostAndLocalRank) {
  control::Roster roster("run", 4);
  ASSERT_FALSE(roster.admit(join_of("b", 1), 11));
  ASSERT_FALSE(roster.admit(join_of("a", 1), 22));
  ASSERT_FALSE(roster.admit(join_of("b", 0), 33));
  EXPECT_FALSE(roster.is_whole());
  ASSERT_FALSE(roster.admit(join_of("a", 0), 44));
  ASSERT_TRUE(roster.is_whole());
  EXPECT_EQ(roster.assign(), (std::vector<std::uint64_t>{44, 22, 33, 11}));
}

TEST(ControlRoster, KeepsTheRankOfItsOwnProcessForIt) {
  const auto process = [](std::uint32_t pid, std::uint32_t rank) {
    wire::Join join = join_of("a", 0);
    join.set_pid(pid);
    join.set_rank(rank + 1);
    return join;
  };
  control::Roster roster("run", 4);
  roster.reserve(process(1, 0));
  const auto refused = roster.admit(process(2, 0), 22);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason(), wire::Refused::RANK);
  EXPECT_THAT(refused->message(),
              HasSubstr("process 2 on a asks for rank 0, but so does process 1 on a"));
  EXPECT_THAT(refused->remedy(), HasSubstr("set another `MemberOptions::run`"));
  EXPECT_FALSE(roster.admit(process(3, 1), 33)) << "other ranks are free";
  EXPECT_FALSE(roster.admit(process(1, 0), 11));
}

TEST(ControlRoster, KeepsRanksOverRestartsAndFillsTheGapWithANewHost) {
  control::Roster roster("run", 4);
  for (const auto& [host, session] : {std::pair{"b", 1}, {"c", 2}, {"d", 3}, {"e", 4}})
    ASSERT_FALSE(roster.admit(join_of(host, 0), static_cast<std::uint64_t>(session)));
  ASSERT_EQ(roster.assign(), (std::vector<std::uint64_t>{1, 2, 3, 4}));
  roster.clear();
  // "a" has taken the place of "c"; the order of arrival is another one.
  for (const auto& [host, session] : {std::pair{"e", 8}, {"a", 6}, {"b", 5}, {"d", 7}})
    ASSERT_FALSE(roster.admit(join_of(host, 0), static_cast<std::uint64_t>(session)));
  EXPECT_EQ(roster.assign(), (std::vector<std::uint64_t>{5, 6, 7, 8}));
}

}  // namespace
}  // namespace troupe

// Joining, ranks, barriers, the store and messages, with real sockets on loopback.

#include "world.h"

#include <set>

#include "runtime/control/detail/key_value_store.h"

namespace troupe {
namespace {

using namespace control_test;
using testing::HasSubstr;

TEST(ControlWorld, GivesEachProcessTheRankItAsksFor) {
  TestWorld world(3);
  for (int rank = 0; rank < 3; ++rank) {
    Member& member = *world.members[static_cast<std::size_t>(rank)];
    EXPECT_EQ(member.rank(), rank);
    EXPECT_EQ(member.size(), 3);
    EXPECT_EQ(member.generation(), 1u);
    ASSERT_EQ(member.processes().size(), 3u);
    EXPECT_EQ(member.processes()[1].rank, 1);
    EXPECT_EQ(member.processes()[1].pid, getpid());
    EXPECT_EQ(member.processes()[1].address(), "127.0.0.1");
  }
}

TEST(ControlWorld, CarriesMessagesInOrder) {
  Inbox inbox;
  TestWorld world(2);
  constexpr int count = 5000;
  for (int i = 0; i < count / 2; ++i) world.members[0]->send(1, std::to_string(i));
  inbox.listen(*world.members[1]);  // what came before waits
  for (int i = count / 2; i < count; ++i) world.members[0]->send(1, std::to_string(i));
  ASSERT_TRUE(inbox.wait_messages(count));
  const auto messages = inbox.messages();
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(messages[static_cast<std::size_t>(i)], std::pair(0, std::to_string(i)));
}

TEST(ControlWorld, AnswersFromTheCallback) {
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[0]);
  Member& echo = *world.members[1];
  echo.open([&](int from, const std::string& body) { echo.send(from, body + "!"); },
            [](const PeerLost&) {});
  world.members[0]->send(1, std::string("a\0b", 3));
  ASSERT_TRUE(inbox.wait_messages(1));
  EXPECT_EQ(inbox.messages()[0], std::pair(1, std::string("a\0b!", 4)));
}

TEST(ControlWorld, SharesAStore) {
  TestWorld world(2);
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(world.members[0]->store().put("key", std::string("a\0b", 3)));
  });
  EXPECT_EQ(world.members[1]->store().get("key", patience).value(), std::string("a\0b", 3));
  const auto missing = world.members[1]->store().get("nothing", milliseconds(10));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::timed_out);
}

TEST(ControlWorld, OneClaimsAKeyAndTheOthersGetWhatItPuts) {
  TestWorld world(3);
  std::atomic<int> firsts{0};
  std::vector<std::jthread> threads;
  for (auto& member : world.members)
    threads.emplace_back([&] {
      const auto claimed = member->store().claim("once", patience);
      ASSERT_TRUE(claimed);
      if (claimed.value().empty()) {
        ++firsts;
        ASSERT_TRUE(member->store().put("once", "done"));
      } else {
        EXPECT_EQ(claimed.value(), "done");
      }
    });
  threads.clear();
  EXPECT_EQ(firsts, 1);
}

TEST(ControlWorld, AClaimGoesOnToTheNextWhenItsHolderIsLost) {
  TestWorld world(3);
  EXPECT_EQ(world.members[0]->store().claim("once", patience).value(), "");
  std::vector<Result<std::string>> claims(2, Error(ErrorCode::internal, "not asked"));
  {
    std::vector<std::jthread> threads;
    for (const std::size_t rank : {1u, 2u})
      threads.emplace_back([&, rank] {
        Store& store = world.members[rank]->store();
        claims[rank - 1] = store.claim("once", patience);
        if (claims[rank - 1].value().empty()) {
          ASSERT_TRUE(store.put("once", "done"));
        }
      });
    std::this_thread::sleep_for(milliseconds(20));
    world.members[0].reset();
  }
  const std::set<std::string> got{claims[0].value(), claims[1].value()};
  EXPECT_EQ(got, (std::set<std::string>{"", "done"}));
}

TEST(ControlWorld, AClaimIsGivenUpAfterItsTimeAndAnotherPutEndsIt) {
  TestWorld world(2);
  Store& one = world.members[0]->store();
  Store& other = world.members[1]->store();
  EXPECT_EQ(one.claim("once", patience).value(), "");
  EXPECT_EQ(one.claim("once", patience).value(), "");
  EXPECT_EQ(other.claim("once", milliseconds(10)).error().code(), ErrorCode::timed_out);
  ASSERT_TRUE(other.put("once", "done"));
  EXPECT_EQ(one.claim("once", patience).value(), "done");
}

TEST(ControlWorld, ABarrierWaitsForAll) {
  TestWorld world(3);
  std::atomic<int> came{0};
  std::vector<std::jthread> threads;
  for (auto& member : world.members)
    threads.emplace_back([&] {
      for (int round = 1; round <= 3; ++round) {
        ++came;
        ASSERT_TRUE(member->barrier("step"));
        EXPECT_GE(came, 3 * round);
        ASSERT_TRUE(member->barrier("done"));
      }
    });
}

TEST(ControlStore, ABarrierCountsRanksAndNotRepeatedArrivals) {
  std::vector<std::pair<int, std::uint64_t>> answered;
  control::KeyValueStore store([&](control::KeyValueStore::Ticket to, const std::string&,
                                   const std::string&) { answered.emplace_back(to.rank, to.id); });
  for (const std::uint64_t id : {1, 2, 3}) store.arrive({0, id}, "all", 3);
  store.arrive({1, 1}, "all", 3);
  store.cancel_arrival({0, 2}, "all");
  store.cancel_arrival({1, 1}, "all");
  store.cancel_arrival({2, 1}, "all");    // has not come
  store.cancel_arrival({0, 1}, "other");  // nobody has
  store.arrive({2, 1}, "all", 3);
  EXPECT_THAT(answered, testing::IsEmpty());
  store.arrive({1, 2}, "all", 3);
  using Tickets = std::vector<std::pair<int, std::uint64_t>>;
  EXPECT_EQ(answered, (Tickets{{0, 1}, {0, 3}, {1, 2}, {2, 1}}));
}

TEST(ControlWorld, ABarrierIsNotKeptForAMemberThatHasGivenUp) {
  const JobKey key = JobKey::generate();
  const auto coordinator = std::move(Coordinator::start(coordinator_options(2, key)).value());
  std::vector<MemberOptions> wanted;
  for (const int rank : {0, 1})
    wanted.push_back(member_options(*coordinator, rank, 2, key, seconds(1)));
  auto members = join_all(wanted);
  // The second time the first one's is still there, if it was not taken back.
  for (const std::size_t rank : {0u, 0u, 1u}) {
    const Status alone = members[rank].value()->barrier("all");
    ASSERT_FALSE(alone) << rank;
    EXPECT_EQ(alone.error().code(), ErrorCode::timed_out);
    EXPECT_TRUE(members[rank].value()->store().put("after", ""))
        << "comes behind what it takes back";
  }
}

TEST(ControlWorld, ABarrierThatAMemberHasLeftIsClosedAtOnce) {
  TestWorld world(3);
  std::vector<std::jthread> threads;
  for (const std::size_t rank : {0u, 1u})
    threads.emplace_back([&, rank] {
      const Status status = world.members[rank]->barrier("all");
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), ErrorCode::peer_lost) << "not by the timeout";
      EXPECT_THAT(status.error().what(), HasSubstr("rank 2 on"));
      EXPECT_THAT(status.error().what(), HasSubstr("has left"));
    });
  EXPECT_TRUE(world.members[2]->leave());
}

TEST(ControlWorld, LeavesOnceEverythingHasArrived) {
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[1]);
  for (int i = 0; i < 1000; ++i) world.members[0]->send(1, "x");
  ASSERT_TRUE(world.members[0]->leave());
  EXPECT_TRUE(inbox.wait_messages(1000));
  ASSERT_TRUE(world.members[1]->leave());
  EXPECT_TRUE(inbox.losses().empty());
  EXPECT_TRUE(world.coordinator->wait_for_end(patience));
}

TEST(ControlWorld, TellsTheOthersWhoEndedWithoutLeaving) {
  std::vector<Inbox> inboxes(3);
  TestWorld world(3);
  inboxes[0].listen(*world.members[0]);
  inboxes[1].listen(*world.members[1]);
  world.members[2].reset();
  for (const int survivor : {0, 1}) {
    Inbox& inbox = inboxes[static_cast<std::size_t>(survivor)];
    ASSERT_TRUE(inbox.wait_losses(1));
    EXPECT_EQ(inbox.losses()[0].rank, 2);
    EXPECT_EQ(inbox.losses()[0].reason, "its process ended");
  }
}

TEST(ControlWorld, SaysThatTheKeyDoesNotFit) {
  auto coordinator =
      std::move(Coordinator::start(coordinator_options(1, JobKey::generate())).value());
  const auto joined = Member::join(member_options(*coordinator, 0, 1, JobKey::generate()));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), ErrorCode::wrong_key);
  EXPECT_THAT(joined.error().what(), HasSubstr("wrong job key"));
  EXPECT_THAT(joined.error().remedy(), HasSubstr("the same `MemberOptions::run`"));
}

// A file may name the coordinator of an earlier run for a while.
TEST(ControlWorld, SaysThatTheKeyDoesNotFitOnceNoOtherCoordinatorIsFound) {
  auto coordinator =
      std::move(Coordinator::start(coordinator_options(1, JobKey::generate())).value());
  MemberOptions options = member_options(*coordinator, 0, 1, JobKey::generate());
  options.timeout = milliseconds(1500);
  options.find_coordinator = [place = coordinator->endpoint()] { return place; };
  const auto joined = Member::join(options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), ErrorCode::wrong_key);
}

}  // namespace
}  // namespace troupe

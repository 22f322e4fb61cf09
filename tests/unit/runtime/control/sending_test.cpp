// Many threads that send through one member at once: messages go out on the thread that sends.

#include <array>
#include <atomic>
#include <future>

#include "world.h"

namespace troupe {
namespace {

using namespace control_test;

constexpr int threads_each = 4;
constexpr int messages_each = 2000;
constexpr std::size_t messages = std::size_t{threads_each} * messages_each;

/// Each thread's messages carry its number and theirs: "2 1734".
void send_all(Member& member, int to) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < threads_each; ++thread)
    threads.emplace_back([&member, to, thread] {
      for (int i = 0; i < messages_each; ++i)
        member.send(to, std::to_string(thread) + ' ' + std::to_string(i));
    });
}

void expect_each_in_order(const Inbox& inbox) {
  std::array<int, threads_each> next{};
  for (const auto& [from, body] : inbox.messages()) {
    const std::size_t space = body.find(' ');
    const auto thread = static_cast<std::size_t>(std::stoi(body.substr(0, space)));
    ASSERT_EQ(std::stoi(body.substr(space + 1)), next.at(thread)++);
  }
  for (const int count : next) EXPECT_EQ(count, messages_each);
}

TEST(ControlSending, KeepsTheOrderOfEachThreadWhereManySendBothWays) {
  std::vector<Inbox> inboxes(2);
  TestWorld world(2);
  for (std::size_t rank = 0; rank < 2; ++rank) inboxes[rank].listen(*world.members[rank]);
  {
    std::jthread other([&] { send_all(*world.members[1], 0); });
    send_all(*world.members[0], 1);
  }
  for (Inbox& inbox : inboxes) {
    ASSERT_TRUE(inbox.wait_messages(messages));
    expect_each_in_order(inbox);
  }
  EXPECT_EQ(world.members[0]->counters().resent + world.members[1]->counters().resent, 0u);
}

TEST(ControlSending, NothingIsLeftUnreadWhileOtherThreadsSendOnTheSameConnection) {
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[0]);
  let_echo(*world.members[1]);
  send_all(*world.members[0], 1);
  // Each answer may come while a thread sends, which can take in the word that it is there.
  for (std::size_t i = 1; i <= 500; ++i) {
    world.members[0]->send(1, "0 0");
    ASSERT_TRUE(inbox.wait_messages(messages + i));
  }
}

TEST(ControlSending, AMemberMayLeaveWhileItsThreadsSend) {
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[1]);
  Member& leaver = *world.members[0];
  std::atomic<bool> has_left{false};
  std::atomic<int> sent{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < threads_each; ++thread)
      threads.emplace_back([&] {
        // In bursts: leaving waits for a moment at which everything has arrived.
        while (!has_left) {
          for (int i = 0; i < 10; ++i) leaver.send(1, "x");
          sent += 10;
          std::this_thread::sleep_for(milliseconds(60));
        }
      });
    ASSERT_TRUE(inbox.wait_messages(10));
    EXPECT_TRUE(leaver.leave());
    has_left = true;
  }
  EXPECT_LE(inbox.messages().size(), static_cast<std::size_t>(sent));
  EXPECT_TRUE(inbox.losses().empty());
}

TEST(ControlSending, ToAPeerThatEndsMeanwhileIsNoMistake) {
  std::vector<Inbox> inboxes(3);
  TestWorld world(3);
  for (const std::size_t rank : {0u, 1u}) inboxes[rank].listen(*world.members[rank]);
  std::jthread sender([&] { send_all(*world.members[0], 2); });
  world.members[2].reset();
  ASSERT_TRUE(inboxes[0].wait_losses(1));
  EXPECT_EQ(inboxes[0].losses()[0].rank, 2);
  sender.join();
  world.members[0]->send(1, "still here");
  EXPECT_TRUE(inboxes[1].wait_messages(1));
}

TEST(ControlSending, ManyThreadsOfOneMemberAskTheCoordinatorAtOnce) {
  TestWorld world(2);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < threads_each; ++thread)
    threads.emplace_back([&, thread] {
      Member& member = *world.members[static_cast<std::size_t>(thread % 2)];
      for (int i = 0; i < 200; ++i) {
        const std::string key = std::to_string(thread) + '.' + std::to_string(i);
        ASSERT_TRUE(member.store().put(key, key));
        EXPECT_EQ(member.store().get(key, patience).value(), key);
      }
    });
}

TEST(ControlSending, ACallbackThatWaitsForOthersDoesNotStopThemFromSending) {
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[1]);
  std::promise<void> reported;
  world.members[0]->open(
      [&](int, const std::string&) {
        // On the member's thread, while the callback runs.
        std::jthread([&] { world.members[0]->send(1, "from another thread"); }).join();
        reported.set_value();
      },
      [](const PeerLost&) {});
  world.members[1]->send(0, "go");
  ASSERT_EQ(reported.get_future().wait_for(patience), std::future_status::ready);
  EXPECT_TRUE(inbox.wait_messages(1));
}

}  // namespace
}  // namespace troupe

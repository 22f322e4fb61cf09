// Connections that break under the messages, and hundreds of members.

#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <random>

#include "runtime/control/detail/context.h"
#include "runtime/control/endpoint.h"
#include "world.h"

namespace troupe {
namespace {

using namespace control_test;

int port_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET
             ? ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port)
             : -1;
}

/// Breaks every connection of this process to or from a port, as a network would.
int break_connections(int port) {
  int broken = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage peer{};
    sockaddr_storage own{};
    socklen_t peer_length = sizeof peer;
    socklen_t own_length = sizeof own;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0)
      continue;
    if (port_of(peer) == port || port_of(own) == port) broken += shutdown(fd, SHUT_RDWR) == 0;
  }
  return broken;
}

int port_of(const std::string& endpoint) { return parse_endpoint(endpoint)->port; }

void expect_counted(const Inbox& inbox, int from, int count) {
  const auto messages = inbox.messages();
  ASSERT_EQ(messages.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(messages[static_cast<std::size_t>(i)], std::pair(from, std::to_string(i)));
}

TEST(ControlBroken, AnswersGoBackOverTheConnectionThatTheQuestionCameBy) {
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[0]);
  Member& echo = *world.members[1];
  let_echo(echo);
  world.members[0]->send(1, "0");
  ASSERT_TRUE(inbox.wait_messages(1));
  // Another thread's messages too, in order with what the callback has sent.
  for (int i = 1; i < 100; ++i) echo.send(0, std::to_string(i));
  ASSERT_TRUE(inbox.wait_messages(100));
  expect_counted(inbox, 1, 100);
  EXPECT_EQ(break_connections(port_of(world.members[0]->endpoint())), 0);
  EXPECT_GT(break_connections(port_of(echo.endpoint())), 0);
  // Only one side can make the connection anew, but both may have to.
  for (int i = 100; i < 200; ++i) echo.send(0, std::to_string(i));
  ASSERT_TRUE(inbox.wait_messages(200));
  expect_counted(inbox, 1, 200);
}

TEST(ControlBroken, ConnectionsLoseDoubleAndReorderNothing) {
  std::vector<Inbox> inboxes(2);
  TestWorld world(2);
  for (const int rank : {0, 1})
    inboxes[static_cast<std::size_t>(rank)].listen(*world.members[static_cast<std::size_t>(rank)]);
  constexpr int count = 20'000;
  std::atomic<int> sent{0};
  {
    std::vector<std::jthread> senders;
    for (const int rank : {0, 1})
      senders.emplace_back([&, rank] {
        for (int i = 0; i < count; ++i) {
          world.members[static_cast<std::size_t>(rank)]->send(1 - rank, std::to_string(i));
          ++sent;
          if (i % 200 == 0) std::this_thread::sleep_for(milliseconds(2));
        }
      });
    int broken = 0;
    std::mt19937 random(1);
    while (sent < 2 * count) {
      std::this_thread::sleep_for(milliseconds(random() % 20));
      broken += break_connections(port_of(world.members[random() % 2]->endpoint()));
    }
    EXPECT_GT(broken, 0);
  }
  for (Inbox& inbox : inboxes) ASSERT_TRUE(inbox.wait_messages(count));
  expect_counted(inboxes[0], 1, count);
  expect_counted(inboxes[1], 0, count);
  for (const Inbox& inbox : inboxes) EXPECT_TRUE(inbox.losses().empty());
}

TEST(ControlBroken, TheCoordinatorsConnectionsMayBreakWithoutAnybodyBeingLost) {
  std::vector<Inbox> inboxes(2);
  TestWorld world(2);
  for (std::size_t rank = 0; rank < 2; ++rank) inboxes[rank].listen(*world.members[rank]);
  int broken = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::jthread> threads;
    for (auto& member : world.members)
      threads.emplace_back([&] { EXPECT_TRUE(member->barrier("round")); });
    broken += break_connections(port_of(world.coordinator->endpoint()));
  }
  EXPECT_GT(broken, 0);
  for (const Inbox& inbox : inboxes) EXPECT_TRUE(inbox.losses().empty());
}

TEST(ControlBroken, ConnectionsMayBreakWhileAllLeave) {
  int broken = 0;
  for (int round = 0; round < 10; ++round) {
    TestWorld world(4);
    std::vector<std::jthread> threads;
    for (auto& member : world.members) threads.emplace_back([&] { EXPECT_TRUE(member->leave()); });
    std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
    broken += break_connections(port_of(world.coordinator->endpoint()));
    EXPECT_TRUE(world.coordinator->wait_for_end(patience));
    threads.clear();
  }
  EXPECT_GT(broken, 0);
}

TEST(ControlMany, MembersJoinGetRanksPassABarrierAndLeave) {
  constexpr int size = 200;
  const JobKey key = JobKey::generate();
  const auto messaging = std::make_shared<MessagingContext>(2, 16 * size);
  auto wanted = coordinator_options(size, key);
  wanted.messaging = messaging;
  auto coordinator = std::move(Coordinator::start(wanted).value());
  std::vector<std::atomic<int>> taken(size);
  std::vector<std::jthread> threads;
  for (int i = 0; i < size; ++i)
    threads.emplace_back([&, i] {
      auto options = member_options(*coordinator, std::nullopt, size, key);
      options.messaging = messaging;
      options.local_rank = i;
      auto joined = Member::join(options);
      ASSERT_TRUE(joined) << joined.error().what();
      Member& member = *joined.value();
      ++taken[static_cast<std::size_t>(member.rank())];
      EXPECT_EQ(member.rank(), i);
      EXPECT_TRUE(member.barrier("all"));
      EXPECT_TRUE(member.leave());
    });
  threads.clear();
  for (const auto& count : taken) EXPECT_EQ(count, 1);
  EXPECT_TRUE(coordinator->wait_for_end(patience));
}

}  // namespace
}  // namespace troupe

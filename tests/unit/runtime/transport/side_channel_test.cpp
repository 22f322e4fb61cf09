// Control messages of a Gloo group, over real sockets.
#include "runtime/transport/gloo/side_channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "memory_store.h"

namespace troupe::transport {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::HasSubstr;
using Text = SideChannel::Text;

const std::string secret(32, 's');

TransportGroup group(Store& store, int rank, int size = 2) {
  return {.store = store, .rank = rank, .size = size};
}

Text text_of(std::string_view text) { return std::as_bytes(std::span(text)); }

ControlMessage message(ControlMessage::Kind kind, std::uint64_t tag = 0) {
  ControlMessage made;
  made.kind = kind;
  made.tag = tag;
  return made;
}

/// Keeps the messages that arrive.
class Recorder {
 public:
  SideChannel::Listener listener() {
    return {.on_message = [this](int from, const ControlMessage& message,
                                 Text text) { return take(from, message, text); },
            .on_lost = [this](int from, const std::exception& why) { lose(from, why.what()); }};
  }

  struct Message {
    int from = 0;
    std::uint64_t tag = 0;
    std::string text;
  };
  std::vector<Message> messages(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return messages_.size() >= count || lost_; });
    return messages_;
  }
  std::string lost() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lost_.has_value(); });
    return *lost_;
  }

 private:
  bool take(int from, const ControlMessage& sent, Text text) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(
        {from, sent.tag, {reinterpret_cast<const char*>(text.data()), text.size()}});
    changed_.notify_all();
    return sent.kind != ControlMessage::Kind::closing;
  }
  void lose(int from, const std::string& why) {
    const std::lock_guard lock(mutex_);
    lost_ = std::to_string(from) + " " + why;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Message> messages_;
  std::optional<std::string> lost_;
};

/// Rank 0 as it is, rank 1 a bare socket that knows the secret.
struct WithABareSocket {
  MemoryStore store;
  Recorder received;  // of rank 0
  Fd one;
  std::unique_ptr<SideChannel> zero;

  WithABareSocket() {
    std::thread other([&] { one = std::move(connect_side_channel(group(store, 1), secret)[0]); });
    zero = std::make_unique<SideChannel>(group(store, 0), secret);
    other.join();
    ::fcntl(one.get(), F_SETFL, 0);  // its reads and writes block
    zero->listen(received.listener());
  }
  void send(const void* data, std::size_t bytes) const {
    ASSERT_EQ(::send(one.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
};

TEST(SideChannel, DeliversMessagesInOrderFromEveryRank) {
  constexpr int size = 4;
  constexpr std::size_t each = 500;
  MemoryStore store;
  std::array<Recorder, size> recorders;
  std::array<std::unique_ptr<SideChannel>, size> ranks;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, at = static_cast<std::size_t>(rank), rank] {
        ranks[at] = std::make_unique<SideChannel>(group(store, rank, size), secret);
        ranks[at]->listen(recorders[at].listener());
        for (std::size_t i = 0; i < each; ++i)
          for (int to = 0; to < size; ++to)
            if (to != rank)
              ranks[at]->send(to, message(ControlMessage::Kind::offer, i),
                              text_of(std::to_string(i)));
      });
  }
  for (Recorder& received : recorders) {
    std::array<std::uint64_t, size> next{};
    for (const Recorder::Message& message : received.messages(each * (size - 1))) {
      EXPECT_EQ(message.tag, next[static_cast<std::size_t>(message.from)]++);
      EXPECT_EQ(message.text, std::to_string(message.tag));
    }
  }
}

TEST(SideChannel, KeepsMessagesForAPeerThatDoesNotReadWithoutBlockingTheSender) {
  WithABareSocket pair;
  constexpr std::uint64_t first = 5000, more = 500;  // 20 MiB: more than both ends' sockets take
  const std::string long_text(SideChannel::max_text_bytes, 'x');
  std::vector<std::byte> came(sizeof(ControlMessage) + long_text.size());
  std::uint64_t next = 0;
  const auto read_until = [&](std::uint64_t end) {
    for (; next < end; ++next) {
      ASSERT_EQ(::recv(pair.one.get(), came.data(), came.size(), MSG_WAITALL),
                static_cast<ssize_t>(came.size()));
      ControlMessage sent;
      std::memcpy(&sent, came.data(), sizeof sent);
      ASSERT_EQ(sent.tag, next);
      ASSERT_EQ(std::memcmp(came.data() + sizeof sent, long_text.data(), long_text.size()), 0);
    }
  };
  for (std::uint64_t i = 0; i < first; ++i)
    pair.zero->send(1, message(ControlMessage::Kind::offer, i), text_of(long_text));
  pair.zero->flush(1, std::chrono::steady_clock::now() + 1ms);
  read_until(first / 4);  // there is room again, and still a backlog
  for (std::uint64_t i = first; i < first + more; ++i)
    pair.zero->send(1, message(ControlMessage::Kind::offer, i), text_of(long_text));
  read_until(first + more);
}

TEST(SideChannel, AssemblesMessagesThatArriveByteByByte) {
  WithABareSocket pair;
  ControlMessage sent = message(ControlMessage::Kind::offer, 7);
  sent.text_bytes = 3;
  std::vector<char> bytes(sizeof sent);
  std::memcpy(bytes.data(), &sent, sizeof sent);
  bytes.insert(bytes.end(), {'a', 'b', 'c'});
  for (const char& byte : bytes) pair.send(&byte, 1);
  EXPECT_EQ(pair.received.messages(1)[0].text, "abc");
}

TEST(SideChannel, GivesUpAConnectionWhoseTextIsTooLong) {
  WithABareSocket pair;
  ControlMessage sent = message(ControlMessage::Kind::offer);
  sent.text_bytes = SideChannel::max_text_bytes + 1;
  pair.send(&sent, sizeof sent);
  EXPECT_EQ(pair.received.lost(), "1 it sent an invalid control message");
}

TEST(SideChannel, DropsAMessageCutOffByTheEndOfAConnection) {
  WithABareSocket pair;
  const ControlMessage sent = message(ControlMessage::Kind::done, 1);
  pair.send(&sent, sizeof sent);
  pair.send(&sent, sizeof sent - 1);
  pair.one = {};
  EXPECT_EQ(pair.received.lost(), "1 its connection has ended");
  EXPECT_EQ(pair.received.messages(1).size(), 1u);
}

TEST(SideChannel, DeliversMessagesSentBeforeTheEnd) {
  WithABareSocket pair;
  pair.zero->send(1, message(ControlMessage::Kind::warning, 3), text_of("why"));
  pair.zero.reset();
  std::vector<std::byte> came(sizeof(ControlMessage) + 4);
  ASSERT_EQ(::recv(pair.one.get(), came.data(), came.size(), MSG_WAITALL),
            static_cast<ssize_t>(sizeof(ControlMessage) + 3));
  EXPECT_EQ(std::memcmp(came.data() + sizeof(ControlMessage), "why", 3), 0);
}

TEST(SideChannel, DeliversFlushedMessagesToAPeerThatSendsAfterTheEnd) {
  WithABareSocket pair;
  constexpr std::size_t count = 1000;
  const std::string long_text(SideChannel::max_text_bytes, 'x');
  std::size_t came = 0;
  std::jthread listens([&] {
    std::vector<std::byte> some(1 << 16);
    for (ssize_t got = 0; (got = ::recv(pair.one.get(), some.data(), some.size(), 0)) > 0;
         came += static_cast<std::size_t>(got)) {
      const ControlMessage answer = message(ControlMessage::Kind::done);
      (void)!::send(pair.one.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  });
  for (std::size_t i = 0; i < count; ++i)
    pair.zero->send(1, message(ControlMessage::Kind::offer, i), text_of(long_text));
  pair.zero->flush(1, std::chrono::steady_clock::now() + 60s);
  pair.zero.reset();
  listens.join();
  EXPECT_EQ(came, count * (sizeof(ControlMessage) + long_text.size()));
}

/// A bare rank 0 that answers like this to rank 1.
Status answered_with(const std::string& answer) {
  MemoryStore store;
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ::listen(listener.get(), 1);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  store.put("g/0", std::to_string(::ntohs(address.sin_port)) + " 127.0.0.1").value();
  std::jthread answers([&] {
    const Fd caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    char byte = 0;
    while (::recv(caller.get(), &byte, 1, 0) > 0) {
    }
  });
  try {
    SideChannel side_channel(group(store, 1), secret);
    return success();
  } catch (const Error& error) {
    return error;
  }
}

std::string hello_of(const std::string& sent, std::int32_t rank) {
  return sent + std::string(reinterpret_cast<const char*>(&rank), sizeof rank);
}

TEST(SideChannel, RefusesAPeerThatAnswersWrongly) {
  EXPECT_TRUE(answered_with(hello_of(secret, 0)));
  const std::string guess(32, 'a');
  for (const std::string& answer : {hello_of(guess, 0), hello_of(secret, 1), hello_of(secret, -1),
                                    std::string("HTTP/1.1 400"), secret}) {
    const Status met = answered_with(answer);
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code(), ErrorCode::peer_lost) << met.error().what();
  }
}

TEST(SideChannel, DropsStrangersAndConnectsTheRanks) {
  MemoryStore store;
  Recorder received;
  std::unique_ptr<SideChannel> zero, one;
  std::jthread listening([&] { zero = std::make_unique<SideChannel>(group(store, 0), secret); });
  const std::string address = store.get("g/0", 20'000ms).value();  // "port 127.0.0.1"
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address)));
  to.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  std::vector<Fd> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int socket = strangers.back().get();
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const std::string guess = hello_of(std::string(32, 'a'), 1);
    const std::string other = hello_of(secret, i % 2 == 0 ? 0 : 1 + i);  // no rank that is missing
    if (i % 3 == 1) ::send(socket, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    if (i % 3 == 2) ::send(socket, guess.data(), guess.size(), MSG_NOSIGNAL);
    if (i % 5 == 3) ::send(socket, other.data(), other.size(), MSG_NOSIGNAL);
  }
  one = std::make_unique<SideChannel>(group(store, 1), secret);
  listening.join();
  zero->listen(received.listener());
  one->send(0, message(ControlMessage::Kind::offer, 5));
  EXPECT_EQ(received.messages(1)[0].tag, 5u);
}

TEST(SideChannel, NamesTheRankThatCannotBeReached) {
  MemoryStore store;
  store.put("g/0", "1 127.0.0.1").value();  // nobody listens on port 1
  try {
    SideChannel side_channel(group(store, 1), secret);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_THAT(error.what(), HasSubstr("cannot reach rank 0 at 1 127.0.0.1"));
  }
}

TEST(SideChannel, RefusesAnAddressThatIsNone) {
  MemoryStore store;
  for (const char* address : {"", "port", "80", "80 nowhere", "x 127.0.0.1"}) {
    store.put("g/0", address).value();
    EXPECT_THROW(SideChannel(group(store, 1), secret), Error) << address;
  }
}

}  // namespace
}  // namespace troupe::transport

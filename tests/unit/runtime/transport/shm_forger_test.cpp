// A peer that writes into shared memory what it must not.
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "memory_store.h"
#include "runtime/transport/shm/arena.h"
#include "runtime/transport/shm/peer_connection.h"
#include "runtime/transport/shm/transport.h"
#include "runtime/transport/wait.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe {
namespace {

using namespace transport;
using test::values;
using testing::HasSubstr;
using std::chrono_literals::operator""ms;

constexpr std::size_t mebi = std::size_t{1} << 20;

/// Rank 0 beside a rank 1 that is the test itself, with the connection in its hands.
struct Forger {
  MemoryStore store;
  std::unique_ptr<Communicator> zero;
  Fd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::shared_ptr<PeerConnection> connection;
  Arena arena;

  Forger() {
    std::thread other([&] {
      connection = connect_peers({.store = store, .rank = 1, .size = 2}, bell.get()).value().at(0);
    });
    zero = std::move(shm.connect({.store = store, .rank = 0, .size = 2}).value());
    other.join();
  }

  /// A block that rank 0 has received the descriptor of.
  Descriptor tensor_of_four() {
    const Block block = arena.allocate(16);
    Signal signal;
    signal.kind = Signal::Kind::segment;
    signal.number = block.segment->number;
    signal.bytes = block.segment->memory->bytes();
    EXPECT_EQ(send_signal(connection->socket(), signal, {block.segment->memory->fd()}),
              SendOutcome::sent);
    Descriptor descriptor;
    descriptor.tag = 1;
    descriptor.rank = 1;
    descriptor.dims[0] = 4;
    descriptor.set_block(block, 16);
    return descriptor;
  }

  std::string outcome() {
    const auto receive = zero->receive(1, 1, {.shape = {4}});
    const auto limit = std::chrono::steady_clock::now() + 20'000ms;
    while (!receive->done() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(1ms);
    if (!receive->done()) return "nothing, for 20 s";
    const Status status = wait_for(receive);
    return status ? "received" : status.error().what();
  }

  std::string after_writing(const Descriptor& descriptor) {
    RingWriter(connection->outgoing()).write(descriptor);
    connection->ring_for_descriptor();
    return outcome();
  }
};

TEST(ShmForger, ReceivesFromAForgerThatKeepsToTheRules) {
  Forger forger;
  EXPECT_EQ(forger.after_writing(forger.tensor_of_four()), "received");
}

TEST(ShmForger, ReportsDescriptorsThatCannotBe) {
  const std::vector<std::pair<const char*, std::function<void(Descriptor&)>>> forgeries{
      {"segment", [](Descriptor& d) { d.segment = 77; }},
      {"outside", [](Descriptor& d) { d.offset = ~std::uint64_t{63}; }},
      {"outside", [](Descriptor& d) { d.offset = mebi; }},
      {"outside", [](Descriptor& d) { d.offset += 8; }},
      {"outside", [](Descriptor& d) { d.bytes = ~std::uint64_t{0}; }},
      {"reused", [](Descriptor& d) { ++d.use; }},
      {"bytes", [](Descriptor& d) { d.dims[0] = 5; }},
      {"damaged", [](Descriptor& d) { d.dims[0] = -4; }},
      {"damaged", [](Descriptor& d) { d.rank = 7; }},
      {"damaged", [](Descriptor& d) { d.dtype = 200; }},
      {"damaged", [](Descriptor& d) { d.layout = 9; }},
      {"damaged",
       [](Descriptor& d) {
         d.rank = 2;
         d.dims[0] = d.dims[1] = std::int64_t{1} << 62;
       }},
  };
  for (const auto& [word, forge] : forgeries) {
    Forger forger;
    Descriptor descriptor = forger.tensor_of_four();
    forge(descriptor);
    EXPECT_THAT(forger.after_writing(descriptor), HasSubstr(word));
    EXPECT_THAT(forger.outcome(), HasSubstr("the shared memory of rank 1 is damaged"));
  }
}

TEST(ShmForger, ReportsRingsWhosePositionsCannotBe) {
  {
    Forger forger;
    forger.connection->outgoing().produced = 1'000'000;
    forger.connection->ring_for_descriptor();
    EXPECT_THAT(forger.outcome(), HasSubstr("damaged"));
  }
  {
    Forger forger;
    forger.connection->outgoing().entries[0].sequence = 5;
    forger.connection->outgoing().produced = 1;  // without a descriptor of that number
    forger.connection->ring_for_descriptor();
    EXPECT_THAT(forger.outcome(), HasSubstr("damaged"));
  }
  {
    Forger forger;
    forger.connection->incoming().consumed = 99;
    forger.zero->send(1, 1, values({4}, 0));
    EXPECT_THAT(forger.outcome(), HasSubstr("damaged"));
  }
}

/// Lets the process open no further file.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const Fd next(::eventfd(0, EFD_CLOEXEC));  // the lowest number that is free
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(ShmForger, IsNotBlamedWhereThisProcessHasTooManyOpenFiles) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd here(ends[0]), there(ends[1]), memory(::eventfd(0, EFD_CLOEXEC));
  Signal signal;
  signal.kind = Signal::Kind::segment;
  ASSERT_EQ(send_signal(there.get(), signal, {memory.get()}), SendOutcome::sent);
  ASSERT_EQ(send_signal(there.get(), signal, {memory.get()}), SendOutcome::sent);
  {
    const NoMoreFiles limit;
    EXPECT_EQ(receive_signal(here.get(), signal), ReceiveOutcome::no_descriptor);
  }
  EXPECT_EQ(receive_signal(here.get(), signal), ReceiveOutcome::received);
}

TEST(ShmForger, ReportsSocketsThatContainWhatNoRankSends) {
  {
    Forger forger;
    ASSERT_EQ(::send(forger.connection->socket(), "junk", 4, 0), 4);
    EXPECT_THAT(forger.outcome(), HasSubstr("damaged"));
  }
  {
    Forger forger;
    Signal signal;
    signal.kind = Signal::Kind::segment;  // whose memory does not come along
    signal.bytes = mebi;
    ASSERT_EQ(send_signal(forger.connection->socket(), signal), SendOutcome::sent);
    EXPECT_THAT(forger.outcome(), HasSubstr("damaged"));
  }
  {
    Forger forger;
    Signal signal;
    signal.kind = Signal::Kind::warning;
    signal.number = 12345;
    signal.text = "it is over";
    ASSERT_EQ(send_signal(forger.connection->socket(), signal), SendOutcome::sent);
    EXPECT_EQ(forger.outcome(), "it is over");
  }
}

}  // namespace
}  // namespace troupe

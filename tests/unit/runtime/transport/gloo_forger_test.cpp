// Rank 0 of a Gloo group beside a rank 1 that says what no rank says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/transport/described.h"
#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/gloo/words.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

const TensorMeta four{.shape = {4}};

struct Forger {
  MemoryStore store;
  std::unique_ptr<Communicator> zero;
  std::optional<Mesh> mesh;
  std::optional<Words> words;

  Forger() {
    std::jthread other([&] {
      mesh.emplace(store, 1, 2, GlooOptions{});
      words.emplace(store, 1, 2, GlooOptions{}, mesh->secret());
    });
    zero = std::move(make_gloo_communicator(store, 0, 2, {}).value());
  }

  /// The outcome of a receive at rank 0.
  std::string outcome() const {
    const Status received = zero->receive(1, 1, four)->wait();
    return received ? "received" : received.error().what();
  }
};

Word offer_of_four() {
  Word word;
  word.kind = Word::Kind::offer;
  word.tag = 1;
  describe(four, word);
  return word;
}

TEST(GlooForger, IsHeardWhereItKeepsToTheRules) {
  Forger forger;
  const std::vector<std::byte> tensor(16);
  forger.words->say(0, offer_of_four(), tensor);
  EXPECT_TRUE(forger.zero->receive(1, 1, four)->wait());
}

TEST(GlooForger, EndsTheGroupWithWhatNoRankSays) {
  const std::vector<std::pair<const char*, std::function<void(Word&)>>> forgeries{
      {"no rank says", [](Word& w) { w.kind = static_cast<Word::Kind>(77); }},
      {"no known type", [](Word& w) { w.dtype = 200; }},
      {"no known type", [](Word& w) { w.layout = 99; }},
      {"no known type", [](Word& w) { w.rank = 7; }},
      {"torn tensor", [](Word& w) { w.dims[0] = 5; }},
      {"", [](Word& w) { w.dims[0] = -4; }},
      {"",
       [](Word& w) {
         w.rank = 2;
         w.dims[0] = w.dims[1] = std::int64_t{1} << 62;
       }},
      {"what was not sent", [](Word& w) { w.kind = Word::Kind::done; }},
  };
  const std::vector<std::byte> tensor(16);
  for (std::size_t i = 0; i < forgeries.size(); ++i) {
    SCOPED_TRACE(i);
    Forger forger;
    Word word = offer_of_four();
    forgeries[i].second(word);
    forger.words->say(0, word, tensor);
    const std::string told = forger.outcome();
    EXPECT_NE(told, "received");
    EXPECT_THAT(told, HasSubstr(forgeries[i].first));
  }
}

// Whatever it says, rank 0 comes to an end of its own.
TEST(GlooForger, HarmsNobodyWithRandomWords) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    Forger forger;
    for (int i = 0; i < 20; ++i) {
      Word word = offer_of_four();
      std::vector<std::byte> bytes(sizeof word), text(random() % 64);
      std::memcpy(bytes.data(), &word, sizeof word);
      for (int flips = 0; flips < 4; ++flips)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      std::memcpy(static_cast<void*>(&word), bytes.data(), sizeof word);
      forger.words->say(0, word, text);
    }
    forger.words->flush(0, std::chrono::steady_clock::now() + std::chrono::seconds(20));
    forger.words->cut();
    forger.mesh->cut();
    EXPECT_NE(forger.outcome(), "received");
  }
}

}  // namespace
}  // namespace troupe::transport

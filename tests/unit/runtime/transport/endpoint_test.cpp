// How an end is told, whatever the transport.
#include "runtime/transport/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <future>
#include <map>
#include <string>
#include <thread>

namespace troupe::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Rank 0 of three, which notes whom it tells why it ends.
class Telling : public Endpoint {
 public:
  Telling() : Endpoint(0, 3) {}
  ~Telling() override { close(); }
  std::string name() const override { return "test"; }

  std::map<int, std::string> told_before_the_end;

 protected:
  void warn(int peer, const Error& error) override {
    if (!ended()) told_before_the_end.emplace(peer, error.message());
  }

 private:
  void interrupt(const Error&) override {}
  void start_send(int, std::uint64_t, const Tensor&, const WorkPtr&) override {}
  void start_receive(int, std::uint64_t, const TensorMeta&, const ReceivePtr&) override {}
  std::unique_ptr<Exchange> open_exchange(std::uint64_t, const CollectiveCall&, const Tensor&,
                                          const Tensor&) override {
    return nullptr;
  }
};

/// Rank 1 tells it the same while it tells rank 1.
class ToldMeanwhile final : public Telling {
 public:
  ~ToldMeanwhile() override { other_.join(); }

 private:
  void warn(int peer, const Error& error) override {
    if (peer == 1 && !other_.joinable()) {
      other_ = std::thread([this] { end_as_told(0, "rank 1 has found it too"); });
      // Time enough to end this rank, if that were not held up until all are told.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    Telling::warn(peer, error);
  }

  std::thread other_;
};

TEST(TransportEndpoint, TellsAllPeersWhyItEndsThoughOneOfThemEndsItMeanwhile) {
  ToldMeanwhile rank;
  rank.fail(Error(ErrorCode::bad_graph, "calls differ"));
  EXPECT_THAT(rank.told_before_the_end,
              ElementsAre(std::pair(1, "calls differ"), std::pair(2, "calls differ")));
}

TEST(TransportEndpoint, PassesOnWhatItWasToldBeforeItEnds) {
  Telling rank;
  rank.end_as_told(static_cast<std::uint32_t>(ErrorCode::bad_graph), "calls differ\ncall alike");
  EXPECT_THAT(rank.told_before_the_end,
              ElementsAre(std::pair(1, "calls differ"), std::pair(2, "calls differ")));
  ASSERT_TRUE(rank.ended());
  EXPECT_EQ(rank.ended()->code(), ErrorCode::bad_graph);
  EXPECT_EQ(rank.ended()->remedy(), "call alike");
}

/// Takes its time to come to rest.
class Slow final : public Telling {
 public:
  ~Slow() override { close(); }

  std::atomic<bool> rests = false;

 private:
  /// Fails as soon as its rank begins to end.
  class Waiting final : public Exchange {
   public:
    explicit Waiting(std::future<void> end) : end_(std::move(end)) {}
    Pace pace() const override { return {64, 1}; }
    void meet() override {
      end_.wait();
      throw Error(ErrorCode::peer_lost, "interrupted");
    }
    void send(int, Stream, const std::byte*, std::size_t) override {}
    void send_to_all(Stream, const std::byte*, std::size_t) override {}
    void expect(int, Stream, std::byte*, std::size_t) override {}
    const std::byte* take(int, Stream) override { return nullptr; }
    void give_back(int, Stream) override {}
    void finish() override {}

   private:
    const std::future<void> end_;
  };

  std::unique_ptr<Exchange> open_exchange(std::uint64_t, const CollectiveCall&, const Tensor&,
                                          const Tensor&) override {
    return std::make_unique<Waiting>(begins_.get_future());
  }
  void interrupt(const Error&) override {
    begins_.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rests = true;
  }

  std::promise<void> begins_;
};

// Its tensors are the caller's again then.
TEST(TransportEndpoint, EndsACollectiveOnceNothingReadsOrWritesAnyMore) {
  Slow rank;
  const WorkPtr work = rank.all_reduce(1, Tensor::zeros({8}));
  const std::jthread control([&] { rank.abort(Error(ErrorCode::peer_lost, "lost")); });
  EXPECT_FALSE(work->wait());
  EXPECT_TRUE(rank.rests);
}

/// While it lives no thread can be started: each would need more memory than can be addressed.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t vast = before_;
    ::pthread_attr_setstacksize(&vast, std::size_t{1} << 50);
    ::pthread_setattr_default_np(&vast);
  }
  ~NoMoreThreads() { ::pthread_setattr_default_np(&before_); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST(TransportEndpoint, EndsHereAndTellsThePeersWhereNoThreadIsLeftForACollective) {
  Telling rank;
  WorkPtr work;
  {
    const NoMoreThreads none;
    work = rank.all_reduce(1, Tensor::zeros({8}));
  }
  const Status status = work->wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::io);
  EXPECT_THAT(status.error().what(), HasSubstr("all_reduce of f32 [8]"));
  EXPECT_THAT(rank.told_before_the_end, SizeIs(2));
}

TEST(TransportEndpoint, TakesAnUnknownReasonForALostPeer) {
  Telling rank;
  rank.end_as_told(4711, "");
  EXPECT_EQ(rank.ended()->code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace troupe::transport

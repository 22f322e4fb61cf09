// What holds for every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "runtime/tensor/backend.h"
#include "runtime/transport/wait.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe {
namespace {

using test::bytes_of;
using test::run_ranks;
using test::values;
using ::testing::AllOf;
using ::testing::HasSubstr;

class EveryTransport : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryTransport, CarriesTensorsOfEveryType) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    for (int type = 0; type <= static_cast<int>(DType::boolean); ++type) {
      const auto dtype = static_cast<DType>(type);
      const Tensor sent = values({3, 5}, 0, dtype);
      if (ranks.rank() == 0) {
        wait_for(ranks.send(1, 7, sent)).value();
        continue;
      }
      const ReceivePtr work = ranks.receive(0, 7, TensorMeta::of(sent));
      wait_for(work).value();
      EXPECT_EQ(bytes_of(work->tensor()), bytes_of(sent)) << name_of(dtype);
      EXPECT_TRUE(TensorMeta::of(work->tensor()).fits(TensorMeta::of(sent)));
    }
  });
}

TEST_P(EveryTransport, CarriesEmptyScalarAndBlockedTensors) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    std::vector<Tensor> all{values({0, 4}, 0), values({}, 0), values({1 << 20}, 0),
                            values({8, 4}, 0).narrow(3, 2)};
    all.push_back(Tensor::zeros({2, 16, 3, 3}, DType::f32, Layout::nchw16c));
    for (const Tensor& sent : all) {
      if (ranks.rank() == 0) {
        wait_for(ranks.send(1, 1, sent)).value();
      } else {
        const ReceivePtr work = ranks.receive(0, 1, TensorMeta::of(sent));
        wait_for(work).value();
        EXPECT_EQ(bytes_of(work->tensor()), bytes_of(sent));
        EXPECT_EQ(work->tensor().layout(), sent.layout());
      }
    }
  });
}

TEST_P(EveryTransport, MatchesByTagAndInOrderWithinOne) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    const TensorMeta meta{.shape = {4}};
    if (ranks.rank() == 0) {
      std::vector<WorkPtr> works;
      for (int i = 0; i < 3; ++i) {
        works.push_back(ranks.send(1, 10, values({4}, i)));
        works.push_back(ranks.send(1, 20, values({4}, 100 + i)));
      }
      for (const WorkPtr& work : works) wait_for(work).value();
      return;
    }
    std::vector<ReceivePtr> twenties, tens;
    for (int i = 0; i < 3; ++i) twenties.push_back(ranks.receive(0, 20, meta));
    for (const auto& work : twenties) wait_for(work).value();  // before any of tag 10 is asked for
    for (int i = 0; i < 3; ++i) tens.push_back(ranks.receive(0, 10, meta));
    for (int i = 0; i < 3; ++i) {
      wait_for(tens[static_cast<std::size_t>(i)]).value();
      EXPECT_EQ(bytes_of(tens[static_cast<std::size_t>(i)]->tensor()), bytes_of(values({4}, i)));
      EXPECT_EQ(bytes_of(twenties[static_cast<std::size_t>(i)]->tensor()),
                bytes_of(values({4}, 100 + i)));
    }
  });
}

TEST_P(EveryTransport, CallsBackOnceAtTheEnd) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    std::atomic<int> calls = 0;
    if (ranks.rank() == 0) {
      const ReceivePtr work = ranks.receive(1, 1, {.shape = {2}});
      work->then([&](const Status& status) { calls += status ? 1 : 100; });
      wait_for(ranks.send(1, 2, values({2}, 0))).value();
      wait_for(work).value();
      work->then([&](const Status& status) { calls += status ? 1 : 100; });
      while (calls == 1) std::this_thread::yield();
      EXPECT_EQ(calls, 2);
    } else {
      wait_for(ranks.receive(0, 2, {.shape = {2}})).value();
      wait_for(ranks.send(0, 1, values({2}, 0))).value();
    }
  });
}

TEST_P(EveryTransport, CarriesTenThousandSmallMessages) {
  constexpr int count = 10'000;
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    std::vector<WorkPtr> works;
    const int peer = 1 - ranks.rank();
    for (int i = 0; i < count; ++i) {
      Tensor tensor = Tensor::zeros({1}, DType::i32);
      tensor.elements<std::int32_t>()[0] = i;
      works.push_back(ranks.send(peer, static_cast<std::uint64_t>(i % 3), tensor));
    }
    for (int i = 0; i < count; ++i) {
      const auto work = ranks.receive(peer, static_cast<std::uint64_t>(i % 3),
                                      {.shape = {1}, .dtype = DType::i32});
      wait_for(work).value();
      ASSERT_EQ(work->tensor().elements<std::int32_t>()[0], i);
    }
    for (const WorkPtr& work : works) wait_for(work).value();
  });
}

TEST_P(EveryTransport, TellsBothEndsOfATensorThatDoesNotFit) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    Status status = success();
    if (ranks.rank() == 0) {
      ranks.send(1, 3, values({4}, 0));
      status = wait_for(ranks.receive(1, 99, {.shape = {1}}));  // never sent
    } else {
      status = wait_for(ranks.receive(0, 3, {.shape = {2, 2}, .dtype = DType::f64}));
    }
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().what(),
                HasSubstr("rank 0 sent f32 [4] row_major with tag 3, rank 1 receives f64 [2, 2]"));
  });
}

TEST_P(EveryTransport, EndsEveryWaitWhenAborted) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    if (ranks.rank() == 1) return;
    const auto waiting = ranks.receive(1, 1, {.shape = {4}});
    ranks.abort(Error(ErrorCode::peer_lost, "host b is cut off"));
    ranks.abort(Error(ErrorCode::internal, "too late"));
    for (const WorkPtr& work : {WorkPtr(waiting), ranks.send(1, 2, values({4}, 0)),
                                WorkPtr(ranks.receive(1, 1, {.shape = {4}}))}) {
      const Status status = wait_for(work);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().message(), "host b is cut off");
    }
  });
}

TEST_P(EveryTransport, SaysWhoHasLeft) {
  auto ranks = test::connect(GetParam(), 2);
  wait_for(ranks[1]->send(0, 1, values({4}, 1))).value();
  const auto waiting = ranks[0]->receive(1, 2, {.shape = {4}});
  ranks[1].reset();
  const Status status = wait_for(waiting);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::peer_lost);
  EXPECT_THAT(status.error().what(), HasSubstr("rank 1 has closed its communicator"));
  const auto late = ranks[0]->receive(1, 1, {.shape = {4}});
  wait_for(late).value();
  EXPECT_EQ(bytes_of(late->tensor()), bytes_of(values({4}, 1)));
}

TEST_P(EveryTransport, RefusesWhatCannotBeRight) {
  run_ranks(GetParam(), 2, [](Communicator& ranks) {
    const auto message = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("nothing was thrown");
    };
    static constexpr Backend backend{.name = "gpu"};
    const Device gpu{&backend, 1};
    EXPECT_THAT(message([&] { ranks.send(2, 0, values({1}, 0)); }), HasSubstr("with rank 2"));
    EXPECT_THAT(message([&] { ranks.send(ranks.rank(), 0, values({1}, 0)); }),
                HasSubstr("with itself"));
    EXPECT_THAT(message([&] { ranks.send(1 - ranks.rank(), 0, {}); }), HasSubstr("undefined"));
    const Tensor there = Tensor::view(Storage::wrap(nullptr, 4, gpu, nullptr), 0, {1}, DType::f32);
    EXPECT_THAT(message([&] { ranks.send(1 - ranks.rank(), 0, there); }),
                AllOf(HasSubstr("send of a tensor on gpu:1"), HasSubstr("tensors on cpu")));
    EXPECT_THAT(message([&] {
                  ranks.receive(1 - ranks.rank(), 0, {.shape = {1}, .layout = Layout::nhwc});
                }),
                HasSubstr("nhwc"));
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryTransport, ::testing::Values("local", "shm", "gloo"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troupe

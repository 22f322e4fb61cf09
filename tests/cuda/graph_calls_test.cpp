// What passes as graphs take from the host, and what becomes of their memory, on the emulator.

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "actors/captured_program.h"
#include "actors/stage_program.h"
#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "ops/cuda/error.h"
#include "ops/cuda/pinned.h"
#include "ops/cuda/stream.h"
#include "ops/models/models.h"
#include "ops/on_device.h"
#include "program_around.h"
#include "runtime/error.h"
#include "runtime/tensor/allocator.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;
using ::testing::ElementsAre;

/// A small model as one stage.
class GraphCalls : public ::testing::Test {
 protected:
  GraphCalls() : program_(made()) {}

  std::unique_ptr<StageProgram> made(std::size_t shapes = 1) const {
    return network_program({.model = MnistCnn{.classes = 4},
                            .samples = {.shape = {1, 8, 8}, .classes = 4},
                            .stream = {.device = emulated_gpu()},
                            .graph_shapes = shapes})(stream_.get());
  }
  StageProgram::Forward forward(std::uint32_t micro_batch) {
    return program_->forward(x_, {.seed = 1, .micro_batch = micro_batch}, false, 0);
  }
  void backward(StageProgram::Forward& made) {
    const Tensor grad = zeros(stream_.get(), made.output.shape(), DType::f32);
    (void)program_->backward(*made.saved, grad, 0);
  }

  EmulatedStream stream_;
  std::unique_ptr<StageProgram> program_;
  Tensor x_ = Tensor::zeros({2, 1, 8, 8});
};

struct Counted {
  std::uint64_t graphs, calls;
};

/// Graphs that `f` launches, and what else it gives to streams.
template <class F>
Counted counted(F&& f) {
  const std::uint64_t graphs = cuda_on_cpu::counts().launched_graphs;
  const std::uint64_t calls = cuda_on_cpu::given_by_thread();
  f();
  return {cuda_on_cpu::counts().launched_graphs - graphs, cuda_on_cpu::given_by_thread() - calls};
}

TEST_F(GraphCalls, AreOneForEachPassOnceItIsCaptured) {
  std::vector<std::uint64_t> graphs, calls;
  for (std::uint32_t m = 0; m < 4; ++m) {
    const Counted one = counted([&] {
      auto made = forward(m);
      backward(made);
    });
    graphs.push_back(one.graphs);
    calls.push_back(one.calls);
  }
  EXPECT_THAT(graphs, ElementsAre(0, 2, 2, 2));
  // The zeros of this test, and copies: of the input, its key, the output, the gradient that is
  // given, that of the weights, and the statistics.
  EXPECT_EQ(calls[2], 7u);
  EXPECT_EQ(calls[3], 7u);
  EXPECT_GT(calls[0], 4 * calls[3]);
}

TEST_F(GraphCalls, EvaluateTheAverageOnceThereIsOne) {
  for (float& value : x_.elements<float>()) value = 0.5F;
  const auto sum = [&] {
    double sum = 0;
    for (const float value : on_cpu(stream_.get(), program_->evaluate(x_, 0)).elements<float>())
      sum += std::abs(value);
    return sum;
  };
  for (int i = 0; i < 3; ++i) EXPECT_GT(sum(), 0);
  auto averaged = std::make_shared<StateVersion>(*program_->state());
  const Tensor zero = zeros(stream_.get(), averaged->weights.shape(), DType::f32);
  averaged->optimizer_state.push_back({std::string(average_name), zero});
  program_->use(averaged);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(), 0) << "of weights that are zero";
}

TEST_F(GraphCalls, HaveALaneForEachMicroBatchInFlight) {
  std::vector<std::uint64_t> graphs;
  for (int round = 0; round < 3; ++round)
    graphs.push_back(counted([&] {
                       auto first = forward(0), second = forward(1);
                       backward(second);
                       backward(first);
                     }).graphs);
  EXPECT_THAT(graphs, ElementsAre(0, 4, 4));
}

TEST_F(GraphCalls, BeginAnewAfterAPassThatWasAbandoned) {
  std::vector<std::uint64_t> graphs;
  for (const bool abandoned : {true, false, true, false, true, false})
    graphs.push_back(counted([&] {
                       auto made = forward(0);
                       if (!abandoned) backward(made);
                     }).graphs);
  EXPECT_THAT(graphs, ElementsAre(0, 0, 1, 2, 1, 2));
}

TEST_F(GraphCalls, AreThoseOfTheLargestInput) {
  const auto graphs_of = [&](std::int64_t samples, int times) {
    x_ = Tensor::zeros({samples, 1, 8, 8});
    return counted([&] {
             for (int i = 0; i < times; ++i) {
               auto made = forward(0);
               backward(made);
             }
           })
        .graphs;
  };
  EXPECT_EQ(graphs_of(2, 3), 4u);
  EXPECT_EQ(graphs_of(1, 3), 0u);
  EXPECT_EQ(graphs_of(3, 3), 4u);
  EXPECT_EQ(graphs_of(2, 3), 0u);
}

TEST_F(GraphCalls, AreThoseOfTheTwoLargestInputsIfAskedFor) {
  program_ = made(2);
  const auto graphs_of = [&](std::initializer_list<std::int64_t> sizes) {
    return counted([&] {
             for (const std::int64_t samples : sizes) {
               x_ = Tensor::zeros({samples, 1, 8, 8});
               auto made = forward(0);
               backward(made);
             }
           })
        .graphs;
  };
  EXPECT_EQ(graphs_of({3, 2, 3, 2}), 4u);
  EXPECT_EQ(graphs_of({2, 3, 1, 1, 1}), 4u);
  EXPECT_EQ(graphs_of({4, 4, 3, 2, 2}), 4u) << "of 4 the second, 3 again; 2 has none any more";
}

TEST_F(GraphCalls, AreCapturedWhileAnotherThreadGivesMemoryBack) {
  auto& allocator = CachingAllocator::of(emulated_gpu());
  (void)zeros(stream_.get(), {4099}, DType::f32);  // leaves a block that is free
  ASSERT_GT(allocator.counters().cached_bytes, 0u);
  DeviceStream& device = *device_stream(stream_.get());
  const Tensor x = zeros(stream_.get(), {64}, DType::f32);
  (void)empty_on_cpu({4099}, DType::f32, emulated_gpu());  // and one of pinned memory
  const auto before = cuda_on_cpu::counts();
  device.begin_capture();
  std::thread of_cpu([] { cuda::pinned_allocator().trim(); });
  std::thread of_gpu([&] { allocator.trim(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // in which they could do harm
  EXPECT_EQ(cuda_on_cpu::counts().pinned_blocks, before.pinned_blocks);
  EXPECT_EQ(cuda_on_cpu::counts().device_blocks, before.device_blocks);
  Tensor filled = x;
  table(stream_.get()).fill(stream_.get(), 1.0, filled);
  const DeviceGraphPtr graph = device.end_capture();
  of_cpu.join();
  of_gpu.join();
  EXPECT_LT(cuda_on_cpu::counts().pinned_blocks, before.pinned_blocks);
  EXPECT_LT(cuda_on_cpu::counts().device_blocks, before.device_blocks);
}

TEST_F(GraphCalls, AreCapturedWhileAnotherStreamTakesMemoryThatTheirsHasUsed) {
  CachingAllocator::of(emulated_gpu()).trim();
  EmulatedStream other;
  Tensor x = zeros(stream_.get(), {5003}, DType::f32);
  DeviceStream& device = *device_stream(stream_.get());
  Tensor filled = zeros(stream_.get(), {64}, DType::f32);
  device.begin_capture();
  std::thread([&] {
    const void* block = x.raw();
    x = {};
    const Tensor taken = zeros(other.get(), {5003}, DType::f32);
    EXPECT_EQ(taken.raw(), block);
    synchronize(other.get());
  }).join();
  table(stream_.get()).fill(stream_.get(), 1.0, filled);
  const DeviceGraphPtr graph = device.end_capture();
}

TEST_F(GraphCalls, WaitForNoOtherStreamWhileTheyAreCaptured) {
  const Emulation emulation({.pace = cuda_on_cpu::Pace::by_hand});
  EmulatedStream other;
  DeviceStream& device = *device_stream(stream_.get());
  (void)doubled(other.get(), on_device(other.get(), on_cpu_filled(1)));
  const WorkPtr fence = device_stream(other.get())->fence();
  device.begin_capture();
  EXPECT_THROW(device.wait(fence, Awaits::memory), Error);
  (void)device.end_capture();
  synchronize(other.get());
  device.begin_capture();
  device.wait(fence, Awaits::memory);  // which has passed
  (void)device.end_capture();
}

TEST_F(GraphCalls, NameTheOptionWhenCudaRefusesThem) {
  try {
    cuda::check(cudaErrorStreamCaptureInvalidated, "capture work");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.remedy(), ::testing::HasSubstr("`cuda_graphs`"));
  }
}

TEST_F(GraphCalls, NameTheOptionWhenMemoryIsOut) {
  const Emulation emulation({.device_bytes = cuda_on_cpu::counts().device_bytes + 100'000});
  x_ = Tensor::zeros({64, 1, 8, 8});
  try {
    (void)forward(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.remedy(), ::testing::StartsWith("set `cuda_graphs` to false, or "));
    EXPECT_EQ(error.message().find("out of memory", 1), std::string::npos) << error.message();
  }
}

// A stream that takes one block has waited for that one alone.
TEST_F(GraphCalls, LeaveTheirMemoryToOthersAfterTheyHaveRun) {
  auto& allocator = CachingAllocator::of(emulated_gpu());
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    allocator.trim();
    const Emulation emulation(drawn(seed));
    program_ = made();
    const std::uint64_t graphs = counted([&] {
                                   for (std::uint32_t m = 0; m < 3; ++m) {
                                     auto pass = forward(m);
                                     backward(pass);
                                     (void)program_->evaluate(x_, 0);
                                   }
                                 }).graphs;
    EXPECT_EQ(graphs, 6u) << "a forward, a backward and an evaluation pass, twice";
    program_.reset();
    ASSERT_GT(allocator.counters().cached_bytes, 0u);
    std::deque<OwnStream> others;
    std::vector<Tensor> taken;
    const auto take_one = [&](std::int64_t elements) {
      const std::uint64_t reused = allocator.counters().reused;
      const Stream& own = others.emplace_back(Stream{.device = emulated_gpu()}).get();
      taken.push_back(zeros(own, Shape{elements}, DType::f32));
      return allocator.counters().reused > reused;
    };
    // All size classes of the allocator that the program has blocks of.
    for (std::int64_t power = 64; power <= 65'536; power *= 2)
      for (std::int64_t quarters = 4; quarters < 8; ++quarters)
        while (take_one(power * quarters / 4)) continue;
    EXPECT_EQ(allocator.counters().cached_bytes, 0u);
    for (const OwnStream& other : others) synchronize(other.get());
    synchronize(stream_.get());
  }
  EXPECT_EQ(cuda_on_cpu::counts().graphs, 0);
}

TEST_F(GraphCalls, LeaveTheMemoryOfAnAbandonedPassToTheNext) {
  const auto& allocator = CachingAllocator::of(emulated_gpu());
  const auto bytes_with = [&](bool abandoned) {
    program_.reset();
    const std::size_t before = allocator.counters().in_use_bytes;
    program_ = made();
    for (std::uint32_t m = 0; m < 2; ++m) {
      if (abandoned) (void)forward(m);
      auto pass = forward(m);
      backward(pass);
    }
    return allocator.counters().in_use_bytes - before;
  };
  EXPECT_EQ(bytes_with(true), bytes_with(false));
}

/// A program that fails after it has taken memory.
class FailsInItsPass final : public ProgramAround {
 public:
  static constexpr std::int64_t elements = 50021;
  FailsInItsPass() : ProgramAround(nullptr) {}
  Tensor evaluate(const Tensor&, std::size_t) override {
    const Tensor taken = Tensor::empty({elements}, DType::f32, emulated_gpu());
    throw Error(ErrorCode::out_of_memory, "no memory for the next tensor");
  }
};

TEST_F(GraphCalls, KeepTheWaitsOfMemoryThatAFailedPassDidNotUse) {
  CachingAllocator::of(emulated_gpu()).trim();
  const Emulation emulation({.pace = cuda_on_cpu::Pace::by_hand});
  const EmulatedStream before, own, after;
  constexpr std::int64_t elements = FailsInItsPass::elements;
  const void* const block = zeros(before.get(), {elements}, DType::f32).raw();  // work is pending
  {
    CapturedProgram program(std::make_unique<FailsInItsPass>(), own.get(), 1, 1);
    EXPECT_THROW((void)program.evaluate(Tensor::zeros({2}), 0), Error);
  }
  const Tensor taken = zeros(after.get(), {elements}, DType::f32);
  EXPECT_EQ(taken.raw(), block);
  synchronize(after.get());
  synchronize(before.get());
}

TEST_F(GraphCalls, LeaveTheStreamAsItWasIfTheEndOfTheCaptureFails) {
  DeviceStream& device = *device_stream(stream_.get());
  device.begin_capture();
  EXPECT_NE(cudaStreamSynchronize(cuda::native(stream_.get())), cudaSuccess);
  cudaGetLastError();
  EXPECT_THROW((void)device.end_capture(), Error);
  EXPECT_EQ(cuda_on_cpu::take_violations().size(), 1u) << "the wait amid the capture";
  EXPECT_FALSE(cuda::captures_here());
  for (std::uint32_t m = 0; m < 3; ++m) {  // captured anew
    auto made = forward(m);
    backward(made);
  }
  const WorkPtr fence = device.fence();
  synchronize(stream_.get());
  EXPECT_TRUE(fence->done());
}

TEST_F(GraphCalls, HoldUpNoFenceWhileTheyAreCaptured) {
  DeviceStream& device = *device_stream(stream_.get());
  Tensor filled = zeros(stream_.get(), {64}, DType::f32);
  device.begin_capture();
  table(stream_.get()).fill(stream_.get(), 1.0, filled);
  std::thread([&] { EXPECT_TRUE(end_of(device.fence())); }).join();
  EXPECT_TRUE(end_of(device.fence()));
  const DeviceGraphPtr graph = device.end_capture();
}

// The first time, kernels are loaded and plans made, which no capture on another thread survives.
TEST_F(GraphCalls, AreNotCapturedWhileOthersGiveSuchWorkForTheFirstTime) {
  const EmulatedStream other;
  const Tensor key = Tensor::empty({2}, DType::u32, stream_.get().device);
  std::atomic<bool> captured = false;
  device_stream(other.get())->repeat_with(key);
  std::jthread captures([&] {
    DeviceStream& device = *device_stream(stream_.get());
    device.repeat_with(key);
    device.begin_capture();
    captured = true;
    const DeviceGraphPtr graph = device.end_capture();
    device.repeat_with({});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(captured);
  device_stream(other.get())->repeat_with({});
  captures.join();
  EXPECT_TRUE(captured);
}

TEST_F(GraphCalls, NameTheOptionWhenAGraphFindsNoMemory) {
  (void)program_->evaluate(x_, 0);
  {
    const Emulation emulation({.refuses_graphs = true});
    try {
      (void)program_->evaluate(x_, 0);
      ADD_FAILURE() << "the second pass is captured";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_THAT(error.message(),
                  ::testing::HasSubstr("cuda:0 while a CUDA graph is instantiated"));
      EXPECT_THAT(error.remedy(), ::testing::HasSubstr("set `cuda_graphs` to false"));
    }
  }
  EXPECT_EQ(cuda_on_cpu::counts().graphs, 0);
  auto next = made();
  EXPECT_TRUE(next->evaluate(x_, 0).defined()) << "the stream computes as before";
}

TEST_F(GraphCalls, NameTheOptionWhenMemoryIsOutAmidACapture) {
  const Emulation emulation({.device_bytes = std::size_t{1} << 20});
  DeviceStream& device = *device_stream(stream_.get());
  device.begin_capture();
  try {
    (void)Tensor::empty({1 << 20}, DType::f32, stream_.get().device);
    ADD_FAILURE() << "4 MiB of 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.remedy(), ::testing::HasSubstr("set `cuda_graphs` to false"));
    EXPECT_THAT(error.message(), ::testing::HasSubstr("cuda:0"));
    EXPECT_THAT(error.message(), ::testing::MatchesRegex(".* [KM]iB of .* [KMG]iB free.*"));
  }
  (void)device.end_capture();
}

}  // namespace
}  // namespace troupe::testing

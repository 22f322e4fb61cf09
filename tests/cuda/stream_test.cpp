// Streams, fences, copies and pinned memory of the CUDA backend, on the emulator.

#include "ops/cuda/stream.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <ostream>
#include <thread>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "ops/backend.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/event.h"
#include "ops/cuda/pinned.h"
#include "ops/kernels.h"
#include "ops/on_device.h"
#include "planted.h"
#include "runtime/error.h"
#include "runtime/tensor/allocator.h"
#include "runtime/tensor/out_of_memory.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;
using cuda_on_cpu::Pace;
using cuda_on_cpu::take_violations;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CudaStream, EndsNoFenceBeforeTheWorkIsDone) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const WorkPtr first = device_stream(stream.get())->fence();
  const Tensor y = doubled(stream.get(), x);
  const WorkPtr second = device_stream(stream.get())->fence();
  // A copy, the event behind which its pinned memory is free, and the fence's; then other work.
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(first->done());
    EXPECT_TRUE(Emulation::advance());
  }
  EXPECT_TRUE(end_of(first));
  EXPECT_FALSE(second->done());
  while (Emulation::advance()) {
  }
  EXPECT_TRUE(end_of(second));
}

// So votes need not wait for its fences.
TEST(CudaStream, SaysThatItsErrorsEndTheRun) {
  const EmulatedStream stream;
  EXPECT_TRUE(device_stream(stream.get())->errors_end_run());
}

TEST(CudaStream, ReusesFreedBlocksInOrder) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream first, second;
    Tensor x = on_device(first.get(), on_cpu_filled(3));
    const Tensor y = doubled(first.get(), x);
    const void* block = x.raw();
    x = {};
    const Tensor z = on_device(second.get(), on_cpu_filled(5));
    EXPECT_EQ(z.raw(), block);
    EXPECT_THAT(values(on_cpu(second.get(), doubled(second.get(), z))), Each(10.0f));
    EXPECT_THAT(values(on_cpu(first.get(), y)), Each(6.0f));
  }
}

// The stream that copies has not used the block otherwise, and is the last to hold the tensor.
TEST(CudaStream, ReusesBlocksThatAnotherStreamCopiesInOrder) {
  for (const bool to_the_cpu : {false, true})
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const Emulation emulation(drawn(seed));
      EmulatedStream first, second;
      Tensor x = on_device(first.get(), on_cpu_filled(3));
      device_stream(second.get())->wait(device_stream(first.get())->fence(), Awaits::results);
      Tensor copy = Tensor::empty(x.shape(), x.dtype(), to_the_cpu ? Device::cpu() : x.device());
      kernels(x.device(), x.dtype()).copy(second.get(), x, copy);
      const void* block = x.raw();
      x = {};
      const Tensor z = on_device(first.get(), on_cpu_filled(5));
      EXPECT_EQ(z.raw(), block);
      synchronize(second.get());
      EXPECT_THAT(values(to_the_cpu ? copy : on_cpu(second.get(), copy)), Each(3.0f));
      EXPECT_THAT(take_violations(), IsEmpty()) << "seed " << seed;
    }
}

// Neither reader comes after the other, so the next user waits for both.
TEST(CudaStream, ReusesBlocksThatTwoOtherStreamsReadInOrder) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream writer, one, other, next;
    Tensor x = on_device(writer.get(), on_cpu_filled(3));
    const WorkPtr written = device_stream(writer.get())->fence();
    std::vector<Tensor> results;
    for (const EmulatedStream* reader : {&one, &other}) {
      device_stream(reader->get())->wait(written, Awaits::results);
      results.push_back(doubled(reader->get(), x));
    }
    const void* block = x.raw();
    x = {};
    const Tensor z = on_device(next.get(), on_cpu_filled(5));
    EXPECT_EQ(z.raw(), block);
    EXPECT_THAT(values(on_cpu(next.get(), z)), Each(5.0f));
    EXPECT_THAT(values(on_cpu(one.get(), results[0])), Each(6.0f));
    EXPECT_THAT(values(on_cpu(other.get(), results[1])), Each(6.0f));
    EXPECT_THAT(take_violations(), IsEmpty()) << "seed " << seed;
  }
}

TEST(CudaStream, TimesWhatTheDeviceDoesInARange) {
  constexpr std::chrono::milliseconds pause{5};
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  DeviceStream& device = *device_stream(stream.get());
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<DeviceRangePtr> ranges;
  for (int i = 0; i < 2; ++i) {
    device.begin_range("stage/0");
    const Tensor y = doubled(stream.get(), x), z = doubled(stream.get(), y);
    ranges.push_back(device.end_range());
  }
  device.begin_range("stage/0");
  EXPECT_EQ(device.end_range(), nullptr) << "nothing was given";
  std::vector<DeviceSpan> spans;
  for (const DeviceRangePtr& range : ranges) {
    std::optional<DeviceSpan> span;
    while (!(span = range->span())) {
      ASSERT_TRUE(Emulation::advance());
      std::this_thread::sleep_for(pause);
    }
    spans.push_back(*span);
  }
  // Two kernels and their event come after the first event.
  for (const DeviceSpan& span : spans)
    EXPECT_GE(span.end - span.begin, 3 * pause - std::chrono::microseconds(1)) << "as float rounds";
  EXPECT_GE(spans[0].begin, begin);
  EXPECT_GT(spans[1].begin, spans[0].begin);
  EXPECT_LE(spans[1].end, std::chrono::steady_clock::now());
}

// The first reading tells how late the host is at least: that of a later range may come much later.
TEST(CudaStream, PlacesARangeWhereTheDeviceDidItThoughItIsReadLate) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  DeviceStream& device = *device_stream(stream.get());
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  while (Emulation::advance()) {
  }
  using Clock = std::chrono::steady_clock;
  Clock::duration late{};
  const auto first = Clock::now();
  for (const bool waits : {false, true}) {
    device.begin_range("stage/0");
    const Tensor y = doubled(stream.get(), x);
    const DeviceRangePtr range = device.end_range();
    const auto before = Clock::now();
    while (Emulation::advance()) {
    }
    const auto done = Clock::now();
    if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto span = range->span();
    ASSERT_TRUE(span);
    if (!waits) late = Clock::now() - before;
    EXPECT_GE(span->end, before);
    // The device's clock may be slower than the host's by a ten-thousandth.
    if (waits) {
      EXPECT_LE(span->end, done + late + (done - first) / 1000);
    }
  }
}

/// Calls of CUDA's runtime.
struct Calls {
  std::uint64_t recordings, waits, host_functions;
  bool operator==(const Calls&) const = default;
};
Calls calls_in(const std::function<void()>& f) {
  const auto before = cuda_on_cpu::counts();
  f();
  const auto after = cuda_on_cpu::counts();
  return {after.recordings - before.recordings, after.stream_waits - before.stream_waits,
          after.host_functions - before.host_functions};
}
void PrintTo(const Calls& calls, std::ostream* out) {
  *out << calls.recordings << " recordings, " << calls.waits << " waits, " << calls.host_functions
       << " host functions";
}

TEST(CudaStream, TakesItsOwnFreedBlocksWithoutACall) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const Calls calls = calls_in([&] {
    for (int i = 0; i < 10; ++i) {
      const void* block = doubled(stream.get(), x).raw();
      EXPECT_EQ(doubled(stream.get(), x).raw(), block);
    }
  });
  EXPECT_EQ(calls, (Calls{0, 0, 0}));
}

TEST(CudaStream, TakesItsOwnFreedBlocksBeforeThoseOfAnother) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream first, second;
  const Tensor x = on_device(first.get(), on_cpu_filled(1));
  const Tensor y = on_device(second.get(), on_cpu_filled(2));
  Tensor of_first = doubled(first.get(), x), of_second = doubled(second.get(), y);
  const void* block = of_first.raw();
  of_first = {};
  of_second = {};
  const Tensor other = on_device(first.get(), Tensor::zeros({1000}, DType::f32));
  const Calls calls = calls_in([&] { EXPECT_EQ(doubled(first.get(), x).raw(), block); });
  EXPECT_EQ(calls, (Calls{0, 0, 0}));
}

/// Blocks that the first stream has used and freed.
std::vector<const void*> freed_blocks(const Stream& stream, const Tensor& x, int count) {
  std::vector<Tensor> used;
  for (int i = 0; i < count; ++i) used.push_back(doubled(stream, x));
  std::vector<const void*> blocks;
  for (const Tensor& one : used) blocks.push_back(one.raw());
  return blocks;
}

TEST(CudaStream, TakesFreedBlocksOfAnotherWithOneWaitAndWithoutAHostFunction) {
  for (const bool has_fence : {false, true}) {
    const Emulation emulation({.pace = Pace::by_hand});
    EmulatedStream first, second;
    const Tensor x = on_device(first.get(), on_cpu_filled(1));
    const Tensor y = on_device(second.get(), on_cpu_filled(2));
    const auto blocks = freed_blocks(first.get(), x, 3);
    if (has_fence) (void)device_stream(first.get())->fence();  // as after each action
    const Calls calls = calls_in([&] {
      std::vector<const void*> taken = freed_blocks(second.get(), y, 3);
      EXPECT_THAT(taken, ::testing::UnorderedElementsAreArray(blocks));
    });
    EXPECT_EQ(calls, (Calls{has_fence ? 0u : 1u, 1, 0}));
  }
}

// A host function wakes the thread that ends fences. Without one it looks by itself, but later.
TEST(CudaStream, WakesTheHostOnceForAFenceThatSomebodyAwaits) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  DeviceStream& own = *device_stream(stream.get());
  const Tensor x = doubled(stream.get(), on_device(stream.get(), on_cpu_filled(1)));
  WorkPtr fence;
  EXPECT_EQ(calls_in([&] { fence = own.fence(); }), (Calls{1, 0, 0}));
  const auto await = [&] { fence->then([](const Status&) {}); };
  EXPECT_EQ(calls_in(await), (Calls{0, 1, 1})) << "behind the fence, on a stream of its own";
  EXPECT_EQ(calls_in(await), (Calls{0, 0, 0}));
  while (!fence->done())
    if (!Emulation::advance()) std::this_thread::yield();
  EXPECT_TRUE(fence->status());
}

TEST(CudaStream, KnowsTheFirstFenceAfterAMarkUntilItHasPassed) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  DeviceStream& own = *device_stream(stream.get());
  Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const std::uint64_t early = own.mark();
  const WorkPtr first = own.fence();
  EXPECT_EQ(own.mark(), early) << "no work was given since";
  x = doubled(stream.get(), x);
  const std::uint64_t late = own.mark();
  EXPECT_EQ(own.fence_after(early), first);
  const WorkPtr second = own.fence_after(late);
  EXPECT_NE(second, first);
  EXPECT_EQ(own.fence(), second);
  x = doubled(stream.get(), x);
  const WorkPtr third = own.fence();
  EXPECT_EQ(own.fence_after(late), second);
  while (!third->done())
    if (!Emulation::advance()) std::this_thread::yield();
  EXPECT_EQ(own.fence_after(early), nullptr);
  EXPECT_EQ(own.fence_after(late), nullptr);
  EXPECT_EQ(own.fence_after(own.mark()), nullptr);
  x = doubled(stream.get(), x);
  EXPECT_NE(own.fence_after(own.mark()), nullptr);
  while (Emulation::advance()) {
  }
}

TEST(CudaStream, RecordsAnEventOfTheFreeListForEachFence) {
  EmulatedStream stream;
  Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const auto next_fence = [&] {
    x = doubled(stream.get(), x);
    EXPECT_TRUE(end_of(device_stream(stream.get())->fence()));
  };
  for (int i = 0; i < 5; ++i) next_fence();
  const int events = cuda_on_cpu::counts().events;
  for (int i = 0; i < 50; ++i) next_fence();
  EXPECT_LE(cuda_on_cpu::counts().events, events + 2);
}

TEST(CudaStream, DoesTheWorkThatWasGivenBeforeItsEnd) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    WorkPtr fence;
    Tensor arrived;
    {
      const OwnStream stream(Stream{.device = emulated_gpu()});
      const Tensor x = on_device(stream.get(), on_cpu_filled(1));
      arrived = to_cpu(stream.get(), doubled(stream.get(), x));
      fence = device_stream(stream.get())->fence();
    }
    EXPECT_TRUE(end_of(fence));
    EXPECT_THAT(values(arrived), Each(2.0f));
  }
}

TEST(CudaStream, ServesManyThreads) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([t] {
        const EmulatedStream first, second;
        Tensor x = on_device(first.get(), on_cpu_filled(static_cast<float>(t)));
        for (int i = 0; i < 3; ++i) {
          x = doubled(first.get(), x);
          device_stream(second.get())->wait(device_stream(first.get())->fence(), Awaits::results);
          x = doubled(second.get(), x);
          device_stream(first.get())->wait(device_stream(second.get())->fence(), Awaits::results);
        }
        EXPECT_THAT(values(on_cpu(first.get(), x)), Each(static_cast<float>(64 * t)));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(take_violations(), IsEmpty());
  }
}

TEST(CudaStream, LeavesNoStreamsAndNoMoreEventsThanBefore) {
  EXPECT_TRUE(end_of(device_stream(EmulatedStream().get())->fence()));
  const auto before = cuda_on_cpu::counts();
  {
    const EmulatedStream stream;
    Tensor x = on_device(stream.get(), on_cpu_filled(1));
    const WorkPtr fence = device_stream(stream.get())->fence();
    EXPECT_TRUE(end_of(fence));
    x = {};
    CachingAllocator::of(emulated_gpu()).trim();  // what it knows of the block's uses
  }
  EXPECT_EQ(cuda_on_cpu::counts().streams, before.streams);
  EXPECT_LE(cuda_on_cpu::counts().events, before.events + 2);
}

TEST(CudaStream, RefusesWhatIsNotItsOwn) {
  const EmulatedStream stream;
  class OtherWork final : public Work {};
  EXPECT_THROW(device_stream(stream.get())->wait(std::make_shared<OtherWork>(), Awaits::memory),
               Error);
  EXPECT_THROW(cuda::native(Stream{.device = emulated_gpu()}), Error);
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST(CudaStream, EndsAllFencesWithTheErrorOfTheDevice) {
  for (const Pace pace : {Pace::thread, Pace::lazy}) {
    const Emulation emulation({.pace = pace});
    EmulatedStream stream, other;
    const Tensor x = on_device(stream.get(), on_cpu_filled(1));
    (void)other.get();  // opened while it can be
    const WorkPtr good = device_stream(stream.get())->fence();
    EXPECT_TRUE(end_of(good));
    cudaDeviceSynchronize();  // no call of the host is left
    Emulation::fail_after(1);
    const WorkPtr failed = [&] {
      const Tensor y = doubled(stream.get(), x);
      return device_stream(stream.get())->fence();
    }();
    const Status status = end_of(failed);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::device_lost);
    EXPECT_TRUE(good->status());
    EXPECT_EQ(code_of([&] { device_stream(stream.get())->synchronize(); }), ErrorCode::device_lost);
    EXPECT_EQ(code_of([&] { doubled(other.get(), x); }), ErrorCode::device_lost);
    EXPECT_FALSE(end_of(device_stream(other.get())->fence()));
    EXPECT_FALSE(end_of(device_stream(stream.get())->fence()));
  }
  EXPECT_THAT(take_violations(), IsEmpty());
}

TEST(CudaCopy, DoesNotArriveBefore) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(7));
  Tensor arrives = on_cpu_filled(0);
  table(stream.get()).copy(stream.get(), x, arrives);
  const WorkPtr fence = device_stream(stream.get())->fence();
  EXPECT_THAT(values(arrives), Each(0.0f));
  while (Emulation::advance()) {
  }
  EXPECT_TRUE(end_of(fence));
  EXPECT_THAT(values(arrives), Each(7.0f));
}

TEST(CudaCopy, LetsKernelsGoOnWithoutTheHost) {
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(7));
  const Calls calls = calls_in([&] {
    Tensor there = on_device(stream.get(), on_cpu_filled(8));
    Tensor here = to_cpu(stream.get(), there);
  });
  EXPECT_EQ(calls, (Calls{2, 0, 0})) << "for both blocks of pinned memory";
}

// The first stream's bytes arrive by the host, for which the second stream's work does not wait.
TEST(CudaCopy, ArrivesBeforeFencesOfStreamsThatWaitForItsResults) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream second, first;
  const Tensor y = on_device(second.get(), on_cpu_filled(1));
  const WorkPtr early = device_stream(second.get())->fence();  // the host looks here first
  const Tensor x = on_device(first.get(), on_cpu_filled(7));
  const Tensor arrives = to_cpu(first.get(), x);
  const WorkPtr of_first = device_stream(first.get())->fence();
  device_stream(second.get())->wait(of_first, Awaits::results);
  const WorkPtr of_second = device_stream(second.get())->fence();
  bool first_had_ended = false;
  of_second->then([&](const Status&) { first_had_ended = of_first->done(); });
  while (Emulation::advance()) {
  }
  EXPECT_TRUE(end_of(of_second));
  EXPECT_TRUE(first_had_ended);
  EXPECT_THAT(values(arrives), Each(7.0f));
}

TEST(CudaCopy, TakesLargeTensorsThroughBlocksOfPinnedMemoryThatAllUse) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  constexpr std::size_t mebi = 1 << 20;
  const auto there_and_back = [&](std::int64_t count) {
    Tensor source = Tensor::empty({count}, DType::f32, Device::cpu());
    for (std::int64_t i = 0; i < count; ++i) source.data<float>()[i] = static_cast<float>(i % 1013);
    const Tensor there = on_device(stream.get(), source);
    synchronize(stream.get());
    const Tensor back = on_cpu(stream.get(), there);
    ASSERT_TRUE(std::equal(source.raw(), source.raw() + source.bytes(), back.raw()));
  };
  there_and_back(2'200'000);  // two pieces of 4 MiB, and a part of one
  const std::size_t pinned = cuda_on_cpu::counts().pinned_bytes;
  for (const std::int64_t count : {1'200'000, 2'099'001}) there_and_back(count);
  EXPECT_LE(cuda_on_cpu::counts().pinned_bytes, pinned + 2 * mebi) << "for the last parts";
}

TEST(CudaCopy, ReadsPinnedTensorsInPlaceAndHoldsThemUntilThen) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  constexpr std::int64_t count = 2'200'000;  // more than a piece
  const auto pinned = [] { return empty_on_cpu({count}, DType::f32, emulated_gpu()); };
  Tensor source = pinned();
  const void* memory = source.raw();
  ASSERT_TRUE(cuda::is_pinned(source));
  EXPECT_FALSE(cuda::is_pinned(Tensor::zeros({count})));
  std::fill_n(source.data<float>(), count, 3.0f);
  const std::size_t before = cuda_on_cpu::counts().pinned_bytes;
  const Tensor there = on_device(stream.get(), source);
  EXPECT_EQ(cuda_on_cpu::counts().pinned_bytes, before) << "no block to copy through";
  source = {};
  {
    const Tensor other = pinned();
    EXPECT_NE(other.raw(), memory) << "while the device has still to read it";
    std::fill_n(other.data<float>(), count, 4.0f);
  }
  synchronize(stream.get());
  const Tensor first = pinned(), second = pinned();
  EXPECT_TRUE(first.raw() == memory || second.raw() == memory) << "afterwards it is free";
  EXPECT_THAT(values(on_cpu(stream.get(), there)), Each(3.0f));
}

TEST(CudaCopy, GivesPinnedMemoryBackWhereTheDeviceHasFailed) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), Tensor::zeros({300'000}, DType::f32));
  synchronize(stream.get());
  const Tensor arrives = to_cpu(stream.get(), x);
  const WorkPtr fence = device_stream(stream.get())->fence();
  const int blocks = cuda_on_cpu::counts().pinned_blocks;
  Emulation::fail_after(1);
  EXPECT_TRUE(Emulation::advance());
  EXPECT_FALSE(end_of(fence));
  EXPECT_NE(cuda::Pinned(x.bytes()).data(), nullptr);
  EXPECT_EQ(cuda_on_cpu::counts().pinned_blocks, blocks);
}

// The caller frees both tensors then, and the blocks of pinned memory are free.
TEST(CudaCopy, IsOverWhenItFailsForWantOfAnEvent) {
  EmulatedStream stream;
  Tensor plain = on_cpu_filled(1), pinned = empty_on_cpu(plain.shape(), DType::f32, emulated_gpu());
  std::ranges::copy(values(plain), pinned.data<float>());
  Tensor there = on_device(stream.get(), plain), arrives = on_cpu_filled(0);
  synchronize(stream.get());
  (void)cuda::Pinned(plain.bytes());  // a block that no event guards is free for the copies
  const Emulation emulation({.pace = Pace::by_hand, .refuses_events = true});
  std::vector<cuda::Event> all;  // that are kept for reuse
  EXPECT_THROW(while (true) all.push_back(cuda::Event::record(cuda::native(stream.get()))),
               OutOfMemory);
  for (const auto& [from, to] :
       {std::pair(&plain, &there), {&pinned, &there}, {&there, &arrives}}) {
    const auto before = cuda_on_cpu::counts().operations;
    EXPECT_THROW(table(stream.get()).copy(stream.get(), *from, *to), OutOfMemory);
    EXPECT_FALSE(Emulation::advance()) << "nothing is left to do";
    EXPECT_GT(cuda_on_cpu::counts().operations, before);
  }
}

TEST(CudaCopy, ConvertsInBothDirectionsAndWithinTheDevice) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream stream;
    const auto empty = [&](DType dtype, Device device) {
      return Tensor::empty(shape, dtype, device);
    };
    Tensor wide = empty(DType::f64, emulated_gpu()), narrow = empty(DType::f32, emulated_gpu());
    Tensor copied = empty(DType::f32, emulated_gpu()), back = empty(DType::f64, Device::cpu());
    const auto copy = table(stream.get()).copy;
    copy(stream.get(), on_cpu_filled(1.5), wide);
    copy(stream.get(), wide, narrow);
    copy(stream.get(), narrow, copied);
    copy(stream.get(), copied, back);
    synchronize(stream.get());
    for (int i = 0; i < planted_count; ++i) EXPECT_EQ(back.data<double>()[i], 1.5);
  }
}

TEST(CudaCopy, CopiesNothingOfEmptyTensors) {
  EmulatedStream stream;
  const auto before = cuda_on_cpu::counts().operations;
  Tensor none = Tensor::empty({0}, DType::f32, emulated_gpu());
  table(stream.get()).copy(stream.get(), Tensor::empty({0}, DType::f32, Device::cpu()), none);
  synchronize(stream.get());
  EXPECT_EQ(cuda_on_cpu::counts().operations, before);
}

TEST(CudaPinned, IsReusedOnceTheCopyIsDone) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  synchronize(stream.get());
  const void* block = cuda::Pinned(100'000).data();
  EXPECT_EQ(cuda::Pinned(90'000).data(), block);
  const Tensor x = on_device(stream.get(), Tensor::zeros({25'000}, DType::f32));
  {
    const cuda::Pinned other(100'000);
    EXPECT_NE(other.data(), block);
  }
  synchronize(stream.get());
  const cuda::Pinned first(100'000), second(100'000);
  EXPECT_TRUE(first.data() == block || second.data() == block);
}

TEST(CudaPinned, WaitsForCopiesWhenMemoryIsOut) {
  constexpr std::size_t mebi = 1 << 20;
  EmulatedStream stream;
  const Emulation emulation({.pace = Pace::by_hand, .pinned_bytes = 3 * mebi});
  EXPECT_THROW(cuda::Pinned(1024 * mebi), OutOfMemory);  // which gives all that is free back
  const Tensor x = on_device(stream.get(), Tensor::zeros({500'000}, DType::f32));
  EXPECT_EQ(cuda_on_cpu::counts().pinned_bytes, 2 * mebi);
  const cuda::Pinned other(2 * mebi);
  EXPECT_NE(other.data(), nullptr);
}

TEST(CudaPinned, GivesFreeBlocksBackWhenMemoryIsOut) {
  constexpr std::size_t mebi = 1 << 20;
  (void)cuda::Pinned(8 * mebi);
  const Emulation emulation({.pinned_bytes = cuda_on_cpu::counts().pinned_bytes + mebi});
  const cuda::Pinned small(2 * mebi);  // only without the block of 8 MiB
  EXPECT_THROW(cuda::Pinned(1024 * mebi), OutOfMemory);
  const cuda::Pinned again(mebi);
  EXPECT_NE(again.data(), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "else it would be the next launch's";
}

TEST(CudaMemory, IsOutWithAnErrorAndComesBack) {
  const EmulatedStream stream;
  constexpr std::int64_t mebi = 1 << 20;
  const auto bytes = [](std::int64_t count) {
    return Tensor::empty({count}, DType::u8, emulated_gpu());
  };
  const Emulation emulation({.device_bytes = cuda_on_cpu::counts().device_bytes + 4 * mebi});
  Tensor first = bytes(3 * mebi);
  try {
    bytes(2 * mebi);
    ADD_FAILURE() << "there is not so much";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.message(), HasSubstr("out of memory on cuda:0: 2.0 MiB requested, 3.0 MiB"));
    EXPECT_THAT(error.message(), HasSubstr(" in use, 1.0 MiB of "));
    EXPECT_THAT(error.remedy(), HasSubstr("`batch_size`"));
  }
  first = {};
  EXPECT_TRUE(bytes(2 * mebi).defined());
}

// Not in use, and yet not there for a block of another size before the device has done its work.
TEST(CudaMemory, OfFreedBlocksThatKernelsStillUseMakesRoomForOtherSizes) {
  EmulatedStream stream;
  constexpr std::int64_t elements = 1 << 18;
  const Emulation emulation(
      {.pace = Pace::by_hand,
       .device_bytes = cuda_on_cpu::counts().device_bytes + 3 * elements * 4});
  { const Tensor x = on_device(stream.get(), Tensor::zeros({2 * elements}, DType::f32)); }
  const Tensor larger = on_device(stream.get(), Tensor::zeros({5 * elements / 2}, DType::f32));
  EXPECT_THAT(on_cpu(stream.get(), larger).elements<float>(), Each(0.0f));
}

}  // namespace
}  // namespace troupe::testing

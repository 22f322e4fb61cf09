// Streams, fences, copies and pinned memory of the CUDA backend, on the emulator.

#include "ops/cuda/stream.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "ops/backend.h"
#include "ops/cuda/elements.h"
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
using ::testing::IsEmpty;

TEST(CudaStream, EndsNoFenceBeforeTheWorkIsDone) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const WorkPtr first = device_stream(stream.get())->record();
  const Tensor y = doubled(stream.get(), x);
  const WorkPtr second = device_stream(stream.get())->record();
  // A copy, a host function that keeps its memory, and the event; then both streams' other work.
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
    EXPECT_EQ(first.violations() + second.violations(), 0);
  }
}

TEST(CudaStream, DoesTheWorkThatWasGivenBeforeItsEnd) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    WorkPtr fence;
    Tensor arrived;
    {
      const EmulatedStream stream;
      const Tensor x = on_device(stream.get(), on_cpu_filled(1));
      arrived = to_cpu(stream.get(), doubled(stream.get(), x));
      fence = device_stream(stream.get())->record();
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
          device_stream(second.get())->wait(device_stream(first.get())->record(), Awaits::results);
          x = doubled(second.get(), x);
          device_stream(first.get())->wait(device_stream(second.get())->record(), Awaits::results);
        }
        EXPECT_THAT(values(on_cpu(first.get(), x)), Each(static_cast<float>(64 * t)));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(take_violations(), IsEmpty());
  }
}

TEST(CudaStream, LeavesNoStreamsAndEvents) {
  const auto before = cuda_on_cpu::counts();
  {
    const EmulatedStream stream;
    Tensor x = on_device(stream.get(), on_cpu_filled(1));
    const WorkPtr fence = device_stream(stream.get())->record();
    EXPECT_TRUE(end_of(fence));
    x = {};
    CachingAllocator::of(emulated_gpu()).trim();  // what it knows of the block's uses
  }
  // The thread that ends fences lets go of the last one a moment later.
  for (int i = 0; i < 1000 && cuda_on_cpu::counts().events > before.events; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(cuda_on_cpu::counts().streams, before.streams);
  EXPECT_LE(cuda_on_cpu::counts().events, before.events);
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
    const WorkPtr good = device_stream(stream.get())->record();
    EXPECT_TRUE(end_of(good));
    cudaDeviceSynchronize();  // no call of the host is left
    Emulation::fail_after(1);
    const WorkPtr failed = [&] {
      const Tensor y = doubled(stream.get(), x);
      return device_stream(stream.get())->record();
    }();
    const Status status = end_of(failed);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::io);
    EXPECT_TRUE(good->status());
    EXPECT_EQ(code_of([&] { device_stream(stream.get())->synchronize(); }), ErrorCode::io);
    EXPECT_EQ(code_of([&] { doubled(other.get(), x); }), ErrorCode::io);
    EXPECT_FALSE(end_of(device_stream(other.get())->record()));
    EXPECT_FALSE(end_of(device_stream(stream.get())->record()));
  }
  EXPECT_THAT(take_violations(), IsEmpty());
}

TEST(CudaCopy, DoesNotArriveBefore) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(7));
  Tensor arrives = on_cpu_filled(0);
  table(stream.get()).copy(stream.get(), x, arrives);
  const WorkPtr fence = device_stream(stream.get())->record();
  EXPECT_THAT(values(arrives), Each(0.0f));
  while (Emulation::advance()) {
  }
  EXPECT_TRUE(end_of(fence));
  EXPECT_THAT(values(arrives), Each(7.0f));
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
    EXPECT_EQ(stream.violations(), 0);
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
  EXPECT_EQ(stream.violations(), 0);
}

TEST(CudaPinned, GivesFreeBlocksBackWhenMemoryIsOut) {
  constexpr std::size_t mebi = 1 << 20;
  (void)cuda::Pinned(8 * mebi);
  const Emulation emulation({.pinned_bytes = cuda_on_cpu::counts().pinned_bytes + mebi});
  const cuda::Pinned small(2 * mebi);  // only without the block of 8 MiB
  EXPECT_THROW(cuda::Pinned(1024 * mebi), OutOfMemory);
  const cuda::Pinned again(mebi);
  EXPECT_NE(again.data(), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(CudaMemory, IsOutWithAnErrorAndComesBack) {
  const EmulatedStream stream;
  constexpr std::int64_t mebi = 1 << 20;
  const auto bytes = [](std::int64_t count) {
    return Tensor::empty({count}, DType::u8, emulated_gpu());
  };
  const Emulation emulation({.device_bytes = cuda_on_cpu::counts().device_bytes + 4 * mebi});
  Tensor first = bytes(3 * mebi);
  EXPECT_THROW(bytes(2 * mebi), OutOfMemory);
  first = {};
  EXPECT_TRUE(bytes(2 * mebi).defined());
  EXPECT_EQ(stream.violations(), 0);
}

}  // namespace
}  // namespace troupe::testing

// Streams, fences, copies and memory of the CUDA backend where a test steers the device: when work
// goes on, when it fails, how much memory there is.

#include <gmock/gmock.h>

#include <functional>
#include <thread>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "ops/cuda/pinned.h"
#include "ops/cuda/stream.h"
#include "ops/on_device.h"
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

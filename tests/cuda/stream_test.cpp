// Streams, fences and copies of the CUDA backend.

#include "ops/cuda/stream.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "ops/on_device.h"
#include "runtime/error.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;
using cuda_on_cpu::EmulationOptions;
using cuda_on_cpu::Pace;
using cuda_on_cpu::take_violations;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr std::uint64_t seeds = 50;

/// Each third seed holds work back as long as can be.
EmulationOptions drawn(std::uint64_t seed) {
  return {.seed = seed, .pace = seed % 3 == 0 ? Pace::lazy : Pace::thread};
}

TEST(CudaStream, EndsFencesInTheirOrderAndAfterTheWork) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream stream;
    Tensor x = on_device(stream.get(), on_cpu_filled(1));
    std::mutex mutex;
    std::vector<int> ended;
    std::vector<WorkPtr> fences;
    std::vector<Tensor> arrived;
    for (int i = 0; i < 5; ++i) {
      x = doubled(stream.get(), x);
      arrived.push_back(to_cpu(stream.get(), x));
      fences.push_back(device_stream(stream.get())->record());
      fences.back()->then([&, i](const Status&) {
        const std::lock_guard lock(mutex);
        ended.push_back(i);
      });
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(end_of(fences[i]));
      EXPECT_THAT(values(arrived[i]), Each(static_cast<float>(2 << i)));
    }
    const std::lock_guard lock(mutex);
    EXPECT_EQ(ended, (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_EQ(stream.violations(), 0);
  }
}

TEST(CudaStream, RecordsOneFenceUntilWorkIsGiven) {
  EmulatedStream stream, other;
  DeviceStream& own = *device_stream(stream.get());
  Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const WorkPtr fence = own.record();
  EXPECT_EQ(own.record(), fence);
  x = doubled(stream.get(), x);
  const WorkPtr later = own.record();
  EXPECT_NE(later, fence);
  own.wait(device_stream(other.get())->record(), Awaits::memory);
  EXPECT_NE(own.record(), later);
  EXPECT_TRUE(end_of(later));
}

// As when the last tensor in a block goes while the stream's owner gives it a kernel.
TEST(CudaStream, RecordsAnotherFenceIfOneWasRecordedWhileWorkWasGiven) {
  const EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const cudaStream_t given_to = cuda::native(stream.get());
  WorkPtr early;
  std::thread([&] { early = device_stream(stream.get())->record(); }).join();
  ASSERT_EQ(cudaMemsetAsync(x.raw(), 0, x.bytes(), given_to), cudaSuccess);
  EXPECT_NE(device_stream(stream.get())->record(), early);
  EXPECT_EQ(stream.violations(), 0);
}

TEST(CudaStream, WaitsForTheFenceOfAnother) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream first, second;
    const Tensor x = on_device(first.get(), on_cpu_filled(3));
    const Tensor y = doubled(first.get(), x);
    device_stream(second.get())->wait(device_stream(first.get())->record(), Awaits::results);
    EXPECT_THAT(values(on_cpu(second.get(), doubled(second.get(), y))), Each(12.0f));
    EXPECT_EQ(first.violations() + second.violations(), 0);
  }
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

TEST(CudaStream, RefusesWhatIsNotItsOwn) {
  const EmulatedStream stream;
  class OtherWork final : public Work {};
  EXPECT_THROW(device_stream(stream.get())->wait(std::make_shared<OtherWork>(), Awaits::memory),
               Error);
  EXPECT_THROW(cuda::native(Stream{.device = emulated_gpu()}), Error);
}

TEST(CudaCopy, ArrivesOnTheCpuWithTheFence) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream stream;
    Tensor source = on_cpu_filled(7);
    Tensor x = Tensor::empty({planted_count}, DType::f32, emulated_gpu());
    table(stream.get()).copy(stream.get(), source, x);
    std::fill_n(source.data<float>(), planted_count, 8.0f);  // it was read when the call returned
    Tensor arrives = on_cpu_filled(0);
    table(stream.get()).copy(stream.get(), doubled(stream.get(), x), arrives);
    EXPECT_TRUE(end_of(device_stream(stream.get())->record()));
    EXPECT_THAT(values(arrives), Each(14.0f));
    EXPECT_EQ(stream.violations(), 0);
  }
}

TEST(CudaCopy, ConvertsInBothDirectionsAndWithinTheDevice) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream stream;
    const auto empty = [&](DType dtype, Device device) {
      return Tensor::empty({planted_count}, dtype, device);
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

}  // namespace
}  // namespace troupe::testing

// Streams, fences and copies of the CUDA backend as every device does them; what steers the device
// is in stream_test.cpp.

#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/cuda/stream.h"
#include "ops/on_device.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;
using ::testing::Each;

TEST(CudaFence, EndsInOrderAndAfterTheWork) {
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
      fences.push_back(device_stream(stream.get())->fence());
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
  }
}

TEST(CudaFence, IsTheSameUntilWorkIsGiven) {
  EmulatedStream stream, other;
  DeviceStream& own = *device_stream(stream.get());
  Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const WorkPtr fence = own.fence();
  EXPECT_EQ(own.fence(), fence);
  x = doubled(stream.get(), x);
  const WorkPtr later = own.fence();
  EXPECT_NE(later, fence);
  own.wait(device_stream(other.get())->fence(), Awaits::memory);
  EXPECT_NE(own.fence(), later);
  EXPECT_TRUE(end_of(later));
}

// As when the last tensor in a block goes while the stream's owner gives it a kernel.
TEST(CudaFence, IsAnotherIfOneWasRecordedWhileWorkWasGiven) {
  const EmulatedStream stream;
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  const cudaStream_t given_to = cuda::native(stream.get());
  WorkPtr early;
  std::thread([&] { early = device_stream(stream.get())->fence(); }).join();
  ASSERT_EQ(cudaMemsetAsync(x.raw(), 0, x.bytes(), given_to), cudaSuccess);
  EXPECT_NE(device_stream(stream.get())->fence(), early);
}

TEST(CudaFence, IsWaitedForByAnotherStream) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream first, second;
    const Tensor x = on_device(first.get(), on_cpu_filled(3));
    const Tensor y = doubled(first.get(), x);
    device_stream(second.get())->wait(device_stream(first.get())->fence(), Awaits::results);
    EXPECT_THAT(values(on_cpu(second.get(), doubled(second.get(), y))), Each(12.0f));
  }
}

TEST(CudaFence, PassesWhenACopyHasArrivedOnTheCpu) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Emulation emulation(drawn(seed));
    EmulatedStream stream;
    Tensor source = on_cpu_filled(7);
    Tensor x = Tensor::empty(shape, DType::f32, emulated_gpu());
    table(stream.get()).copy(stream.get(), source, x);
    std::fill_n(source.data<float>(), planted_count, 8.0f);  // it was read when the call returned
    Tensor arrives = on_cpu_filled(0);
    table(stream.get()).copy(stream.get(), doubled(stream.get(), x), arrives);
    EXPECT_TRUE(end_of(device_stream(stream.get())->fence()));
    EXPECT_THAT(values(arrives), Each(14.0f));
  }
}

}  // namespace
}  // namespace troupe::testing

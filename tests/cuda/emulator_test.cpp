// The emulator finds mistakes that are planted here, and none in what is correct.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "ops/cuda/stream.h"
#include "planted.h"
#include "runtime/device/device_stream.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;
using cuda_on_cpu::Pace;
using cuda_on_cpu::take_violations;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t bytes = planted_count * sizeof(float);

class EmulatorTest : public ::testing::Test {
 protected:
  EmulatorTest() {
    for (float** array : {&arrays_.x, &arrays_.y, &arrays_.fresh})
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(array), bytes), cudaSuccess);
    arrays_.host = host_.data();
    EXPECT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned_), bytes), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(arrays_.x, 0, bytes, native()), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(arrays_.y, 0, bytes, native()), cudaSuccess);
    synchronize(stream());
    EXPECT_THAT(take_violations(), IsEmpty());
  }
  ~EmulatorTest() override {
    cudaDeviceSynchronize();
    for (float* array : {arrays_.x, arrays_.y, arrays_.fresh}) cudaFree(array);
    cudaFreeHost(pinned_);
    EXPECT_THAT(take_violations(), IsEmpty());
  }

  const Stream& stream() const { return stream_.get(); }
  const Stream& other() const { return other_.get(); }
  cudaStream_t native() const { return cuda::native(stream()); }
  static std::vector<std::string> found_after(const Stream& stream) {
    synchronize(stream);
    return take_violations();
  }

  std::array<float, planted_count> host_{};
  PlantedArrays arrays_{};
  float* pinned_ = nullptr;
  EmulatedStream stream_, other_;
};

struct Planted {
  const char* name;
  PlantedKernel kernel;
  const char* text;  ///< in what the emulator says
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedMistake : public EmulatorTest, public ::testing::WithParamInterface<Planted> {};

TEST_P(PlantedMistake, IsFoundInEachOrderOfThreads) {
  for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const Emulation emulation({.seed = seed});
    GetParam().kernel(stream(), arrays_);
    EXPECT_THAT(found_after(stream()), Contains(HasSubstr(GetParam().text))) << seed;
  }
}

constexpr Planted mistakes[] = {
    {"misses_syncthreads", misses_syncthreads, "reads, not in order, what was written"},
    {"misses_syncwarp", misses_syncwarp, "not in order"},
    {"shuffles_instead_of_syncwarp", shuffles_instead_of_syncwarp, "not in order"},
    {"writes_beyond", writes_beyond, "writes 4 bytes at byte 256 of 256 bytes"},
    {"reads_beyond", reads_beyond, "reads 4 bytes at byte 256 of 256 bytes"},
    {"writes_the_same", writes_the_same, "writes, not in order, what was written"},
    {"blocks_write_the_same", blocks_write_the_same, "writes, not in order, what was written"},
    {"blocks_read_each_other", blocks_read_each_other, "not in order"},
    {"writes_what_is_read", writes_what_is_read, "not in order"},
    {"writes_what_another_read", writes_what_another_read, "not in order"},
    {"reads_unwritten", reads_unwritten, "reads what nobody wrote"},
    {"reads_unwritten_shared", reads_unwritten_shared, "reads what nobody wrote: shared memory"},
    {"names_lanes_that_left", names_lanes_that_left, "names lanes of warp 0 that have ended"},
    {"gives_different_masks", gives_different_masks, "the mask"},
    {"diverges_to_two_barriers", diverges_to_two_barriers, "meet at two __syncthreads"},
    {"leaves_before_a_barrier", leaves_before_a_barrier, "have ended before a __syncthreads"},
    {"stands_still", stands_still, "stands still"},
    {"is_misaligned", is_misaligned, "uses a misaligned address"},
    {"misses_bytes", misses_bytes, "not in order"},
    {"writes_host_memory", writes_host_memory, "writes memory that is not the device's"},
};

std::string name_of_planted(const ::testing::TestParamInfo<Planted>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, PlantedMistake, ::testing::ValuesIn(mistakes), name_of_planted);

class CorrectKernel : public EmulatorTest, public ::testing::WithParamInterface<Planted> {};

TEST_P(CorrectKernel, IsNotReported) {
  for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const Emulation emulation({.seed = seed});
    GetParam().kernel(stream(), arrays_);
    EXPECT_THAT(found_after(stream()), IsEmpty()) << seed;
  }
}

constexpr Planted correct[] = {
    {"has_syncthreads", has_syncthreads, ""},
    {"has_syncwarp", has_syncwarp, ""},
    {"names_lanes_that_are_there", names_lanes_that_are_there, ""},
    {"writes_bytes", writes_bytes, ""},
};
INSTANTIATE_TEST_SUITE_P(All, CorrectKernel, ::testing::ValuesIn(correct), name_of_planted);

TEST_F(EmulatorTest, FindsAUseAfterFree) {
  float* freed = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&freed), bytes), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  doubles(stream(), arrays_.x, freed);
  EXPECT_THAT(found_after(stream()), Contains(HasSubstr("writes device memory that was freed")));
}

TEST_F(EmulatorTest, FindsMemoryThatIsFreedWhileAKernelMayUseIt) {
  for (const Pace pace : {Pace::thread, Pace::lazy, Pace::by_hand}) {
    const Emulation emulation({.pace = pace});
    float* freed = nullptr;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&freed), bytes), cudaSuccess);
    doubles(stream(), arrays_.x, freed);
    ASSERT_EQ(cudaFree(freed), cudaSuccess);
    EXPECT_THAT(take_violations(), Contains(HasSubstr("frees, not in order, what is used by")));
  }
}

TEST_F(EmulatorTest, FindsMemoryThatIsFreedTwice) {
  void* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, bytes), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_EQ(cudaFree(freed), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(arrays_.x), cudaErrorInvalidValue);
  EXPECT_EQ(take_violations().size(), 2u);
}

TEST_F(EmulatorTest, FindsAStreamThatReadsAnothersResultWithoutAnEvent) {
  for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const Emulation emulation({.seed = seed, .pace = seed % 2 ? Pace::lazy : Pace::by_hand});
    doubles(stream(), arrays_.x, arrays_.y);
    doubles(other(), arrays_.y, arrays_.x);
    synchronize(stream());
    EXPECT_THAT(found_after(other()), Contains(HasSubstr("not in order")));
  }
}

// The write is in order with the reader that came last, but not with the one before.
TEST_F(EmulatorTest, FindsAWriteOfWhatAnEarlierStreamStillReads) {
  const Emulation emulation({.pace = Pace::by_hand});
  EmulatedStream third;
  doubles(stream(), arrays_.x, arrays_.y);
  ASSERT_TRUE(Emulation::advance());
  doubles(other(), arrays_.x, arrays_.fresh);
  ASSERT_TRUE(Emulation::advance());
  device_stream(third.get())->wait(device_stream(other())->fence(), Awaits::results);
  ASSERT_EQ(cudaMemsetAsync(arrays_.x, 0, bytes, cuda::native(third.get())), cudaSuccess);
  EXPECT_THAT(found_after(third.get()), Contains(HasSubstr("what is read by")));
}

TEST_F(EmulatorTest, FindsAHostThatReadsACopyBeforeItArrives) {
  for (const Pace pace : {Pace::thread, Pace::lazy, Pace::by_hand}) {
    const Emulation emulation({.pace = pace});
    cudaMemcpyAsync(pinned_, arrays_.x, bytes, cudaMemcpyDeviceToHost, native());
    while (Emulation::advance()) {
    }
    read_by_host(pinned_);  // it has arrived, but the host cannot know
    EXPECT_THAT(take_violations(), Contains(HasSubstr("the host reads, not in order")));
    synchronize(stream());
    read_by_host(pinned_);
    EXPECT_THAT(take_violations(), IsEmpty());
  }
}

TEST_F(EmulatorTest, FindsAHostThatWritesWhatIsStillCopied) {
  for (const Pace pace : {Pace::thread, Pace::lazy, Pace::by_hand}) {
    const Emulation emulation({.pace = pace});
    write_by_host(pinned_, 1);
    cudaMemcpyAsync(arrays_.x, pinned_, bytes, cudaMemcpyHostToDevice, native());
    write_by_host(pinned_, 2);
    EXPECT_THAT(found_after(stream()), Contains(HasSubstr("not in order")));
  }
}

TEST_F(EmulatorTest, SeesWhatTheHostCopiesWithMemcpy) {
  const Emulation emulation({.pace = Pace::by_hand});
  cudaMemcpyAsync(pinned_, arrays_.x, bytes, cudaMemcpyDeviceToHost, native());
  while (Emulation::advance()) {
  }
  volatile std::size_t size = bytes;  // else the compiler copies without a call
  std::memcpy(host_.data(), pinned_, size);
  EXPECT_THAT(take_violations(), Contains(HasSubstr("the host reads, not in order")));
}

TEST_F(EmulatorTest, FindsAHostThatReadsDeviceMemory) {
  read_by_host(arrays_.x);
  EXPECT_THAT(take_violations(), Contains("the host reads device memory"));
}

TEST_F(EmulatorTest, RefusesCopiesOfMemoryThatIsNotPinned) {
  EXPECT_EQ(cudaMemcpyAsync(arrays_.x, host_.data(), bytes, cudaMemcpyHostToDevice, native()),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(arrays_.x, pinned_, bytes, cudaMemcpyDeviceToDevice, native()),
            cudaErrorInvalidValue);
  EXPECT_EQ(take_violations().size(), 2u);
}

TEST_F(EmulatorTest, RefusesTheNullStream) {
  EXPECT_EQ(cudaMemsetAsync(arrays_.x, 0, bytes, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(take_violations(), std::vector<std::string>(2, "the null stream is used"));
}

TEST_F(EmulatorTest, FindsUsesOfDestroyedStreamsAndEvents) {
  cudaStream_t made = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(made), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(made), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMemsetAsync(arrays_.x, 0, bytes, made), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, native()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(take_violations().size(), 4u);
}

TEST_F(EmulatorTest, FindsAHostFunctionThatCallsCuda) {
  const auto call = [](void*) { EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorNotPermitted); };
  ASSERT_EQ(cudaLaunchHostFunc(native(), call, nullptr), cudaSuccess);
  EXPECT_THAT(found_after(stream()), Contains("a host function calls CUDA"));
}

TEST_F(EmulatorTest, LimitsMemoryAndCountsIt) {
  const auto before = cuda_on_cpu::counts();
  const Emulation emulation({.device_bytes = before.device_bytes + 3 * bytes});
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 2 * bytes), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 2 * bytes), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cuda_on_cpu::counts().device_blocks, before.device_blocks + 1);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, bytes), cudaSuccess);
  EXPECT_EQ(cuda_on_cpu::counts().peak_device_bytes, before.device_bytes + 2 * bytes);
  ASSERT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cuda_on_cpu::counts().device_bytes, before.device_bytes);
}

TEST_F(EmulatorTest, AnswersAnErrorForGoodOnceWorkHasFailed) {
  const Emulation emulation({.pace = Pace::by_hand});
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  Emulation::fail_after(2);
  int calls = 0;
  const auto call = [](void* calls) { ++*static_cast<int*>(calls); };
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaLaunchHostFunc(native(), call, &calls), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, native()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorIllegalAddress);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, bytes), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorIllegalAddress);
}

TEST_F(EmulatorTest, ForgetsAnErrorWhenTheEmulationEnds) {
  {
    const Emulation emulation({});
    Emulation::fail_after(1);
    doubles(stream(), arrays_.x, arrays_.y);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  }
  doubles(stream(), arrays_.x, arrays_.y);
  EXPECT_THAT(found_after(stream()), IsEmpty());
}

}  // namespace
}  // namespace troupe::testing

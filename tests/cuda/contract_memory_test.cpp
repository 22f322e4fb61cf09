// Memory, copies and errors.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "contract.h"
#include "contract_kernels.h"
#include "emulated.h"
#include "ops/cuda/stream.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

using ContractMemory = Contract;
using ContractCopy = Contract;
using ContractError = Contract;

TEST_F(ContractMemory, BeginsAtMultiplesOf256Bytes) {
  for (const std::size_t bytes : {1, 3, 256, 257, 5000}) {
    const DeviceInts first(bytes), second(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.get()) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.get()) % 256, 0u);
  }
}

TEST_F(ContractMemory, IsFreedWhereThereIsNone) {
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
}

// So a thread that frees memory must hold no lock that a host function wants.
template <class Memory>
void frees_after_the_work() {
  const RawStream stream;
  std::atomic<bool> opened = false;
  Gate gate(stream);
  std::thread opener;
  {
    const Memory memory(64);
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is being freed
      opened = true;
      gate.open();
    });
  }
  EXPECT_TRUE(opened);
  opener.join();
}
TEST_F(ContractMemory, IsFreedAfterAllStreamsWork) { frees_after_the_work<DeviceInts>(); }
TEST_F(ContractMemory, IsFreedAfterAllStreamsWorkIfPinned) { frees_after_the_work<PinnedInts>(); }

TEST_F(ContractMemory, IsOutWithAnErrorThatIsToldOnce) {
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, std::size_t{1} << 46), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&block, 64), cudaSuccess);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
}

TEST_F(ContractCopy, ReadsPinnedMemoryWhenItsTurnComes) {
  const RawStream stream;
  const DeviceInts device(64);
  PinnedInts from(64), to(64);
  from[0] = 1;
  Gate gate(stream);
  EXPECT_EQ(cudaMemcpyAsync(device.get(), from.get(), 64, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  from[0] = 2;
  EXPECT_EQ(cudaMemcpyAsync(to.get(), device.get(), 64, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(to[0], 2);
}

TEST_F(ContractCopy, WritesTheBytesItIsGivenAndNoOthers) {
  const RawStream stream;
  const DeviceInts first(256), second(256);
  PinnedInts host(256);
  EXPECT_EQ(cudaMemsetAsync(first.get(), 1, 256, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(second.get(), 2, 256, stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(second.get() + 8, first.get(), 64, cudaMemcpyDeviceToDevice, stream),
            cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(host.get(), second.get(), 256, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(host[i], i >= 8 && i < 24 ? 0x01010101 : 0x02020202) << i;
}

TEST_F(ContractError, NotReadyEndsNoStream) {
  const RawStream stream;
  const RawEvent event;
  const DeviceInts memory(64);
  Gate gate(stream);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory.get(), 0, 64, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaGetLastError();  // not ready or nothing
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(ContractError, OfADeviceThatIsNotThereIsToldOnce) {
  EXPECT_EQ(cudaSetDevice(9999), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(ContractError, OfALaunchThatIsRefusedIsToldOnceAndLosesNothing) {
  const EmulatedStream stream;
  struct Case {
    dim3 blocks, threads;
  };
  for (const auto& [blocks, threads] :
       {Case{dim3(0), dim3(32)}, Case{dim3(1), dim3(0)}, Case{dim3(1), dim3(1056)},
        Case{dim3(1, 65536), dim3(32)}, Case{dim3(1), dim3(1, 1, 128)}}) {
    EXPECT_THROW(launches_nothing(stream.get(), blocks, threads), Error);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "check() has taken it";
  }
  cuda_on_cpu::take_violations();  // the emulator reports them too
  launches_nothing(stream.get(), dim3(3, 2, 2), dim3(16, 2, 2));
  launches_nothing(stream.get(), dim3(1), dim3(1024));
}

/// Names the first statement that does not hold, for the test's process.
void require(bool holds, const char* statement) {
  if (holds) return;
  std::fprintf(stderr, "it does not hold that %s\n", statement);
  std::_Exit(1);
}

// In a process of its own, since the context is lost.
[[noreturn]] void lose_the_context() {
  constexpr cudaError_t lost = cudaErrorIllegalAddress;
  const EmulatedStream stream;
  const RawStream other;
  const RawEvent event;
  const DeviceInts memory(64);
  const cudaStream_t native = cuda::native(stream.get());
  static bool called = false;
  require(cudaDeviceSynchronize() == cudaSuccess, "all is well before");
  accesses_no_memory(stream.get());
  cudaLaunchHostFunc(
      native, [](void*) { called = true; }, nullptr);
  cudaEventRecord(event, native);
  require(cudaEventSynchronize(event) == lost, "an event ends with the error");
  require(!called, "no host function is called after the error");
  require(cudaEventQuery(event) == lost, "a query answers it");
  require(cudaStreamSynchronize(other) == lost, "other streams end with it");
  require(cudaDeviceSynchronize() == lost, "the device ends with it");
  void* block = nullptr;
  require(cudaMalloc(&block, 64) == lost, "memory is refused");
  cudaStream_t made = nullptr;
  require(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == lost, "streams are refused");
  require(cudaMemsetAsync(memory.get(), 0, 64, other) == lost, "work is refused");
  require(cudaEventQuery(event) == lost && cudaStreamSynchronize(native) == lost,
          "calls answer it for good");
  std::_Exit(0);
}

TEST(ContractLostContext, AnswersOneErrorForGood) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose_the_context(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace troupe::testing

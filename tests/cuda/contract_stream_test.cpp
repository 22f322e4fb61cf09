// Streams, events and host functions.

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "contract.h"

namespace troupe::testing {
namespace {

using ContractStream = Contract;
using ContractEvent = Contract;
using ContractHostFunction = Contract;

/// Gives a function of the host to the stream.
template <class F>
void call(cudaStream_t stream, F& f) {
  EXPECT_EQ(cudaLaunchHostFunc(
                stream, [](void* data) { (*static_cast<F*>(data))(); }, &f),
            cudaSuccess);
}

TEST_F(ContractStream, ReturnsFromCallsBeforeTheirWorkIsDone) {
  const RawStream stream;
  PinnedInts host(64);
  const DeviceInts device(64);
  host[0] = 5;
  Gate gate(stream);
  EXPECT_EQ(cudaMemsetAsync(device.get(), 0, 64, stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(host.get(), device.get(), 64, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(host[0], 5);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(host[0], 0);
}

TEST_F(ContractStream, DoesItsWorkInOrder) {
  const RawStream stream;
  std::vector<int> seen;
  std::vector<std::function<void()>> calls;
  for (int i = 0; i < 50; ++i) calls.push_back([&seen, i] { seen.push_back(i); });
  for (auto& one : calls) call(stream, one);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(seen.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_F(ContractStream, IsWaitedForWithAllOthersByTheDevice) {
  const RawStream first, second;
  std::atomic<int> done = 0;
  auto count = [&] { ++done; };
  call(first, count);
  call(second, count);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(done, 2);
}

TEST_F(ContractStream, DoesTheWorkThatWasGivenBeforeItWasDestroyed) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  Gate gate(stream);
  std::promise<void> done;
  auto finish = [&] { done.set_value(); };
  call(stream, finish);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);  // does not wait for the gate
  gate.open();
  done.get_future().wait();
}

TEST_F(ContractEvent, HasPassedWhileItWasNeverRecorded) {
  const RawStream stream;
  const RawEvent event;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST_F(ContractEvent, PassesAfterTheWorkThatWasGivenBefore) {
  const RawStream stream;
  const RawEvent event;
  Gate gate(stream);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(ContractEvent, DoesNotWaitForWorkThatIsGivenAfterIt) {
  const RawStream stream;
  const RawEvent event;
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  Gate gate(stream);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  gate.open();
}

TEST_F(ContractEvent, CountsFromItsLastRecording) {
  const RawStream stream;
  const RawEvent event;
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  Gate gate(stream);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
}

TEST_F(ContractEvent, TellsTheTimeBetweenTwoThatWereMadeForIt) {
  const RawStream stream;
  const RawEvent first(cudaEventDefault), last(cudaEventDefault), untimed;
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, last), cudaErrorInvalidResourceHandle)
      << "never recorded";
  auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  Gate gate(stream);
  EXPECT_EQ(cudaEventRecord(first, stream), cudaSuccess);
  call(stream, sleep);
  EXPECT_EQ(cudaEventRecord(last, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, last), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, last), cudaSuccess);
  EXPECT_GT(milliseconds, 19);  // the sleep takes at least 20
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, untimed), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_F(ContractEvent, OrdersTheWorkOfTwoStreams) {
  const RawStream second, first;  // the emulator prefers the older one
  const RawEvent event;
  int seen = 0, found = 0;
  auto write = [&] { seen = 7; };
  auto read = [&] { found = seen; };
  Gate gate(first);
  call(first, write);
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  call(second, read);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(found, 7);
}

// Else the second stream would wait for itself.
TEST_F(ContractEvent, IsWaitedForAsItWasRecordedThen) {
  const RawStream first, second;
  const RawEvent event;
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, second), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
}

TEST_F(ContractHostFunction, SeesWhatACopyBeforeItHasWritten) {
  const RawStream stream;
  const DeviceInts device(64);
  PinnedInts host(64);
  host[3] = -1;
  int found = 0;
  auto read = [&] { found = host[3]; };
  EXPECT_EQ(cudaMemsetAsync(device.get(), 1, 64, stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(host.get(), device.get(), 64, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  call(stream, read);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(found, 0x01010101);
}

}  // namespace
}  // namespace troupe::testing

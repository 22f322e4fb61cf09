// Graphs: work that a stream captures.

#include <functional>
#include <optional>

#include "contract.h"

namespace troupe::testing {
namespace {

using ContractGraph = Contract;

constexpr std::size_t bytes = 64;

/// What `give` gives the stream, ready to be launched.
class RawGraph {
 public:
  RawGraph(cudaStream_t stream, const std::function<void()>& give) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    give();
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable_, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  ~RawGraph() { EXPECT_EQ(cudaGraphExecDestroy(executable_), cudaSuccess); }
  RawGraph(const RawGraph&) = delete;
  RawGraph& operator=(const RawGraph&) = delete;
  void launch(cudaStream_t stream) const {
    EXPECT_EQ(cudaGraphLaunch(executable_, stream), cudaSuccess);
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

void fill(cudaStream_t stream, const DeviceInts& to, int byte) {
  EXPECT_EQ(cudaMemsetAsync(to.get(), byte, bytes, stream), cudaSuccess);
}
void copy(cudaStream_t stream, const DeviceInts& from, const DeviceInts& to) {
  EXPECT_EQ(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream),
            cudaSuccess);
}
/// The first byte, when the stream has come so far.
int first_byte(cudaStream_t stream, const DeviceInts& from, const PinnedInts& host) {
  EXPECT_EQ(cudaMemcpyAsync(host.get(), from.get(), bytes, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  return host[0] & 0xff;
}
int first_byte(cudaStream_t stream, const DeviceInts& from) {
  return first_byte(stream, from, PinnedInts(bytes));
}

TEST_F(ContractGraph, RunsWhenItIsLaunchedAndNotWhenItIsCaptured) {
  const RawStream stream;
  const DeviceInts x(bytes);
  fill(stream, x, 1);
  const RawGraph graph(stream, [&] { fill(stream, x, 2); });
  EXPECT_EQ(first_byte(stream, x), 1);
  graph.launch(stream);
  EXPECT_EQ(first_byte(stream, x), 2);
}

TEST_F(ContractGraph, ReadsTheMemoryAsItIsAtEachLaunch) {
  const RawStream stream;
  const DeviceInts x(bytes), y(bytes);
  fill(stream, x, 1);
  const RawGraph graph(stream, [&] { copy(stream, x, y); });
  for (int byte = 3; byte < 6; ++byte) {
    fill(stream, x, byte);
    graph.launch(stream);
    EXPECT_EQ(first_byte(stream, y), byte);
  }
}

TEST_F(ContractGraph, RunsInOrderWithWhatTheStreamIsGivenBeforeAndAfter) {
  const RawStream stream;
  const DeviceInts x(bytes), y(bytes), z(bytes);
  fill(stream, x, 1);
  const RawGraph graph(stream, [&] {
    copy(stream, x, y);
    fill(stream, x, 9);
  });
  Gate gate(stream);
  fill(stream, x, 4);
  graph.launch(stream);
  copy(stream, x, z);
  fill(stream, x, 5);
  graph.launch(stream);
  gate.open();
  EXPECT_EQ(first_byte(stream, y), 5);
  EXPECT_EQ(first_byte(stream, z), 9);
}

TEST_F(ContractGraph, IsCapturedWhileMemoryIsAllocatedAndEventsAreAsked) {
  const RawStream stream, other;
  const RawEvent event;
  Gate gate(other);
  EXPECT_EQ(cudaEventRecord(event, other), cudaSuccess);
  const DeviceInts x(bytes);
  fill(stream, x, 1);
  std::optional<DeviceInts> y;
  const RawGraph graph(stream, [&] {
    y.emplace(bytes);
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    (void)cudaGetLastError();
    fill(stream, *y, 7);
    copy(stream, *y, x);
  });
  gate.open();
  graph.launch(stream);
  EXPECT_EQ(first_byte(stream, x), 7);
}

TEST_F(ContractGraph, RunsThoughItIsDestroyedMeanwhile) {
  const RawStream stream;
  const DeviceInts x(bytes);
  fill(stream, x, 1);
  Gate gate(stream);
  {
    const RawGraph graph(stream, [&] { fill(stream, x, 6); });
    graph.launch(stream);
  }
  gate.open();
  EXPECT_EQ(first_byte(stream, x), 6);
}

TEST_F(ContractGraph, IsCapturedWhileOtherStreamsWaitForWhatWasGivenBefore) {
  const RawStream stream, other;
  const RawEvent before;
  const DeviceInts x(bytes), y(bytes);
  const PinnedInts host(bytes);  // nothing is freed during a capture
  fill(stream, x, 1);
  EXPECT_EQ(cudaEventRecord(before, stream), cudaSuccess);
  const RawGraph graph(stream, [&] {
    fill(stream, x, 2);
    EXPECT_EQ(cudaStreamWaitEvent(other, before, 0), cudaSuccess);
    copy(other, x, y);
    EXPECT_EQ(first_byte(other, y, host), 1);
  });
  graph.launch(stream);
  EXPECT_EQ(first_byte(stream, x), 2);
}

TEST_F(ContractGraph, MayBeLaunchedOnceMoreBeforeItHasRun) {
  const RawStream stream;
  const DeviceInts x(bytes), y(bytes), z(bytes);
  for (const DeviceInts* each : {&x, &y, &z}) fill(stream, *each, 1);
  const RawGraph graph(stream, [&] {
    copy(stream, y, z);
    copy(stream, x, y);
  });
  fill(stream, x, 2);
  Gate gate(stream);
  graph.launch(stream);
  graph.launch(stream);
  gate.open();
  EXPECT_EQ(first_byte(stream, z), 2);
}

}  // namespace
}  // namespace troupe::testing

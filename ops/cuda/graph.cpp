#include "ops/cuda/graph.h"

#include <fmt/format.h>

#include "ops/cuda/error.h"
#include "runtime/bytes_text.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

void check_graph(cudaError_t status, const char* operation, const char* when) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // which would be the next launch's
  if (status == cudaErrorMemoryAllocation) refuse_graph(when);
  check(status, operation);
}

}  // namespace

void refuse_graph(const std::string& when) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "query free memory");
  int device = 0;
  check(cudaGetDevice(&device), "name the device");
  throw Error(ErrorCode::out_of_memory,
              fmt::format("out of memory on cuda:{} {}, {} of {} free", device, when,
                          bytes_text(free), bytes_text(total)),
              "raise `micro_batches`, lower `batch_size`, or set `cuda_graphs` to false");
}

CapturedWork::CapturedWork(cudaStream_t captures) {
  check_graph(cudaStreamEndCapture(captures, &graph_), "capture work",
              "at the end of a CUDA graph's capture");
}

CapturedWork::~CapturedWork() { cudaGraphDestroy(graph_); }

void CapturedWork::begin(cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture work");
}

Graph::Graph(const CapturedWork& work) {
  check_graph(cudaGraphInstantiate(&executable_, work.get(), 0), "instantiate captured work",
              "while a CUDA graph is instantiated");
}

Graph::~Graph() { cudaGraphExecDestroy(executable_); }

void Graph::launch(cudaStream_t stream) const {
  check_graph(cudaGraphLaunch(executable_, stream), "launch captured work",
              "at the launch of a CUDA graph");
}

}  // namespace troupe::cuda

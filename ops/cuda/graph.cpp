#include "ops/cuda/graph.h"

#include "ops/cuda/error.h"
#include "runtime/error.h"

namespace troupe::cuda {

Graph::Graph(cudaStream_t captured) {
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(captured, &graph);
  if (ended != cudaSuccess) cudaGetLastError();  // which would be the next launch's
  check(ended, "capture work");
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  if (status != cudaSuccess) cudaGetLastError();
  if (status == cudaErrorMemoryAllocation)
    throw Error(ErrorCode::out_of_memory, "out of memory while a CUDA graph is made ready",
                "lower `batch_size`, raise `micro_batches`, or set `cuda_graphs` to false");
  check(status, "make captured work ready");
}

Graph::~Graph() { cudaGraphExecDestroy(executable_); }

void Graph::begin_capture(cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture work");
}

void Graph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(executable_, stream), "launch captured work");
}

}  // namespace troupe::cuda

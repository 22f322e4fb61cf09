#include "ops/cuda/graph.h"

#include "ops/cuda/error.h"

namespace troupe::cuda {

Graph::Graph(cudaStream_t captured) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(captured, &graph), "capture work");
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
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

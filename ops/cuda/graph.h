#pragma once
#include <cuda_runtime_api.h>

namespace troupe::cuda {

/// Work that a stream has captured, ready to be launched. What was launched still runs when it is
/// destroyed. Not copied.
class Graph {
 public:
  /// Ends the capture of the stream. Throws the Error of CUDA: that of the call which could not be
  /// captured too.
  explicit Graph(cudaStream_t captured);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// From now on the stream captures what it is given. Other threads may call CUDA meanwhile, and
  /// this one may allocate memory.
  static void begin_capture(cudaStream_t stream);
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace troupe::cuda

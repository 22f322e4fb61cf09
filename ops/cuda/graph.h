#pragma once
#include <cuda_runtime_api.h>

#include <string>

namespace troupe::cuda {

/// Throws Error{out_of_memory}: "out of memory on cuda:0 {when}, 12.5 MiB of 79.6 GiB free". The
/// remedy names the option `cuda_graphs`.
[[noreturn]] void refuse_graph(const std::string& when);

/// Work that a stream has captured. Not copied.
class CapturedWork {
 public:
  /// Ends the capture of the stream. Throws the Error of CUDA: that of the call which could not be
  /// captured too.
  explicit CapturedWork(cudaStream_t captures);
  ~CapturedWork();
  CapturedWork(const CapturedWork&) = delete;
  CapturedWork& operator=(const CapturedWork&) = delete;

  /// From now on the stream captures what it is given. Other threads may call CUDA meanwhile, and
  /// this one may allocate memory.
  static void begin(cudaStream_t stream);
  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

/// Captured work, ready to be launched. What was launched still runs when it is
/// destroyed (ContractGraph, not run on a GPU yet). Not copied.
class Graph {
 public:
  explicit Graph(const CapturedWork& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace troupe::cuda

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/training.h"

namespace troupe {

/// Warnings about the shape of a run: work that does not divide evenly among processes, replicas or
/// micro-batches, a smaller last batch, a one_cycle schedule that never rises.
std::vector<std::string> shape_warnings(const PipelineOptions& pipeline);

/// A warning if the number of threads comes from environment variables that make no sense.
std::vector<std::string> variable_warnings(const Options& options);

/// A warning if the options leave the choice of the device to the run, and a GPU that this build
/// could use cannot be used, or a job has GPUs for which it is not built; else empty.
std::string no_gpu_warning(const Options& options);
/// The same of the error of find_gpu() and the number of GPUs that a queue has allocated.
std::string no_gpu_warning(const Error& why, int allocated);

/// Where the sums of gradients that are in flight after so many steps of the run are lost
/// (asynchronous aggregation); else empty.
std::string lost_gradients_warning(const PipelineOptions& pipeline, std::uint32_t steps);

/// These, those of the options, and warnings about the machine and the checkpoint: more threads
/// than cores, other kernels than those of the resumed run.
std::vector<std::string> warnings(const Options& options, const StartingPoint& start,
                                  const PipelineOptions& pipeline);

}  // namespace troupe

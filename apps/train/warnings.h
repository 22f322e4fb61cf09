#pragma once
#include <string>
#include <vector>

#include "apps/train/training.h"

namespace troupe {

/// Warnings about the shape of a run: work that does not divide evenly among processes or replicas,
/// a one_cycle schedule that never rises.
std::vector<std::string> shape_warnings(const PipelineOptions& pipeline);

/// These, and warnings about the machine and the checkpoint: more threads than cores, other kernels
/// than those of the resumed run.
std::vector<std::string> warnings(const Options& options, const StartingPoint& start,
                                  const PipelineOptions& pipeline);

}  // namespace troupe

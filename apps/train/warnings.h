#pragma once
#include <string>
#include <vector>

#include "apps/train/training.h"

namespace troupe {

/// What is allowed of a run but probably not meant, a sentence each: work that its processes or
/// replicas cannot share evenly, a schedule without its rise.
std::vector<std::string> shape_warnings(const PipelineOptions& pipeline);

/// These, and what is odd of this machine or the checkpoint: more threads than cores, kernels other
/// than those of the run that is gone on with.
std::vector<std::string> warnings(const Options& options, const StartingPoint& start,
                                  const PipelineOptions& pipeline);

}  // namespace troupe

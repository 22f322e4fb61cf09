#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/training.h"
#include "ops/optim/learning_rate.h"

namespace troupe {

/// What is allowed but probably not meant: more threads than cores, work that processes or replicas
/// cannot share evenly, a schedule without its rise, another kernel width than that of the run that
/// is gone on with. A sentence each.
std::vector<std::string> warnings(const Options& options, const StartingPoint& start,
                                  const LearningRateOptions& rate, std::uint32_t processes = 1);

}  // namespace troupe

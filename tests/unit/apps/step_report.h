#pragma once
// A step as tests of what is written and shown report it.

#include <chrono>
#include <cstdint>

#include "apps/output/report.h"

namespace troupe {

/// Step `step` of 100, in the first epoch of 2.
inline StepReport step_report(std::int64_t step) {
  return {.step = step,
          .steps_total = 100,
          .epoch = 1,
          .epochs_total = 2,
          .loss = 1.0 / 3,
          .accuracy = 0.5,
          .images_per_second = 1234.56,
          .lr = 0.1,
          .training_time = std::chrono::milliseconds(1500)};
}

}  // namespace troupe

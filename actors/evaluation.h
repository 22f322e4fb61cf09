#pragma once
#include <cstdint>

namespace troupe {

/// The result of an evaluation, which takes each sample of the test set once.
struct Evaluation {
  std::uint32_t step = 0;  ///< committed steps before it
  double loss = 0;         ///< mean over the samples
  std::int64_t correct = 0;
  std::int64_t count = 0;

  double accuracy() const {
    return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0.0;
  }
};

}  // namespace troupe

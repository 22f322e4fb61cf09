#pragma once
#include <cstdint>
#include <optional>

namespace troupe {

/// The result of an evaluation, which takes each sample of the test set once.
struct Evaluation {
  std::uint32_t step = 0;                   ///< committed steps before it
  double loss = 0;                          ///< mean over the samples
  std::optional<std::int64_t> correct = 0;  ///< none for a loss without accuracy, such as mse
  std::int64_t count = 0;

  std::optional<double> accuracy() const {
    if (!correct) return std::nullopt;
    return count > 0 ? static_cast<double>(*correct) / static_cast<double>(count) : 0.0;
  }
};

}  // namespace troupe

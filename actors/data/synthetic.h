#pragma once
#include <cstdint>
#include <vector>

#include "actors/data/dataset.h"

namespace troupe {

/// Images that are drawn from the seed and can be learnt: each class has a pattern of 4 x 4 bright
/// and dark cells per channel, and independent noise per pixel. There are a sixth as many
/// samples for testing as for training, one at least.
struct Synthetic {
  static constexpr std::string_view name = "synthetic";
  static constexpr std::array usual_mean{0.286}, usual_std{0.353};  ///< of Fashion-MNIST
  std::vector<std::int64_t> shape = {1, 28, 28};                    ///< channels, height, width
  std::int64_t classes = 10;
  std::int64_t count = 6400;  ///< training samples

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

#pragma once
#include <filesystem>

#include "actors/data/dataset.h"

namespace troupe {

// CIFAR-10 and CIFAR-100 (A. Krizhevsky, "Learning multiple layers of features from tiny images",
// 2009), as downloaded from https://www.cs.toronto.edu/~kriz/cifar.html: the binary form or the one
// for Python, each as the archive (.tar.gz) or as the folder in it. Samples are [3, 32, 32].
//
// Without a path they are looked for in dataset_folder. Opening reads all samples. Describing reads
// the labels; in an archive, it unpacks all (1 s).

struct Cifar10 {
  static constexpr std::string_view name = "cifar10";
  static constexpr std::array usual_mean{0.4914, 0.4822, 0.4465}, usual_std{0.2470, 0.2435, 0.2616};
  std::filesystem::path path = {};  ///< the archive, the folder, or a folder that contains either

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

/// Its targets are the 100 fine labels.
struct Cifar100 {
  static constexpr std::string_view name = "cifar100";
  static constexpr std::array usual_mean{0.5071, 0.4867, 0.4408}, usual_std{0.2675, 0.2565, 0.2761};
  std::filesystem::path path = {};  ///< the archive, the folder, or a folder that contains either

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

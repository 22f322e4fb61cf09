#pragma once
#include <filesystem>

#include "actors/data/dataset.h"

namespace troupe {

// Images of u8 and their labels in the form of MNIST: two IDX files for training, two for testing,
// plain or gzip. Images are [height, width] or [channels, height, width]; the greatest label gives
// the number of classes. The data sets differ in where they look for the files.
//
// Opening reads labels and headers. A thread then unpacks the training images; the test images are
// unpacked at the first request.

/// Fashion-MNIST in `path` or, as torchvision stores it, below; without a path, Debian's copy, else
/// dataset_folder.
struct FashionMnist {
  static constexpr std::string_view name = "fashion_mnist";
  static constexpr std::array usual_mean{0.286}, usual_std{0.353};
  std::filesystem::path path = {};  ///< folder of the files; empty: as above

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

/// MNIST in `path` or, as torchvision stores it, below; without a path, in dataset_folder.
struct Mnist {
  static constexpr std::string_view name = "mnist";
  static constexpr std::array usual_mean{0.1307}, usual_std{0.3081};
  std::filesystem::path path = {};  ///< folder of the files

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

/// Any data set in files with the names of MNIST's.
struct IdxFolder {
  static constexpr std::string_view name = "idx";
  std::filesystem::path path = {};  ///< folder of the files

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

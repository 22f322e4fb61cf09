#pragma once
#include <filesystem>

#include "actors/data/dataset.h"

namespace troupe {

/// Images of u8 and their labels in the form of MNIST: two IDX files for training, two for testing,
/// plain or gzip. Images are [height, width] or [channels, height, width]; the greatest label gives
/// the number of classes. Without a path, Debian's copy of Fashion-MNIST.
///
/// Opening reads labels and headers. A thread then unpacks the training images; the test images are
/// unpacked at the first request.
struct IdxFolder {
  static constexpr std::string_view name = "fashion_mnist";
  std::filesystem::path path = {};  ///< folder of the files; empty: Debian's

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

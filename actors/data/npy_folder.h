#pragma once
#include <filesystem>
#include <string>

#include "actors/data/dataset.h"

namespace troupe {

/// Arrays of NumPy in a folder: x_train.npy, y_train.npy, x_test.npy and y_test.npy, or files of
/// other names. The files are mapped into memory. Types and shapes: actors/data/array_dataset.h.
struct NpyFolder {
  static constexpr std::string_view name = "npy";
  std::filesystem::path path = {};  ///< folder of the files
  std::string train_samples = "x_train.npy", train_targets = "y_train.npy";
  /// Where both are missing, there is no test set but `test_fraction`.
  std::string test_samples = "x_test.npy", test_targets = "y_test.npy";
  double test_fraction = 0;  ///< share of the training samples that is held out for testing

  OptionFields options();
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

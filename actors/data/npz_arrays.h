#pragma once
#include <filesystem>

#include "actors/data/array_names.h"

namespace troupe {

/// Arrays of NumPy in one file, as numpy.savez and numpy.savez_compressed write them: x_train,
/// y_train, x_test and y_test, or others. They are read into memory when the data set is opened.
/// Types and shapes: actors/data/array_dataset.h.
struct NpzArrays {
  static constexpr std::string_view name = "npz";
  std::filesystem::path path = {};  ///< the file
  ArrayNames names = {};            ///< as NumPy shows them, without .npy

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

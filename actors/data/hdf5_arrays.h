#pragma once
#include <filesystem>

#include "actors/data/array_names.h"

namespace troupe {

/// The data sets x_train, y_train, x_test and y_test of an HDF5 file, or others, also in groups
/// ("fold_1/x_train"). Samples in chunks are read when they are needed, contiguous ones are mapped;
/// targets are read into memory. Types and shapes: actors/data/array_dataset.h; what is read of
/// HDF5: runtime/file/hdf5.h.
struct Hdf5Arrays {
  static constexpr std::string_view name = "hdf5";
  std::filesystem::path path = {};  ///< the file
  ArrayNames names = {};

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

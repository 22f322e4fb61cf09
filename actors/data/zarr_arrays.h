#pragma once
#include <filesystem>

#include "actors/data/array_names.h"

namespace troupe {

/// The arrays x_train, y_train, x_test and y_test of a zarr group in a folder, or others, also in
/// groups ("fold_1/x_train"). Samples are read chunk by chunk when they are needed; targets are
/// read into memory. Types and shapes: actors/data/array_dataset.h; what is read of zarr:
/// runtime/file/zarr.h.
struct ZarrArrays {
  static constexpr std::string_view name = "zarr";
  std::filesystem::path path = {};  ///< the folder of the group
  ArrayNames names = {};

  OptionFields options();
  DatasetSummary describe(const DatasetOptions& options) const;
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const;
};

}  // namespace troupe

#pragma once
#include <filesystem>
#include <string>

#include "actors/data/dataset.h"

namespace troupe {

/// The arrays of a data set in a file that gives them names. Where both for testing are missing,
/// there is no test set but `test_fraction`.
struct ArrayNames {
  std::string train_samples = "x_train", train_targets = "y_train";
  std::string test_samples = "x_test", test_targets = "y_test";
  double test_fraction = 0;  ///< share of the training samples that is held out for testing
};

/// The options of such a data set: data.path with this help, and those of the names.
OptionFields array_options(std::filesystem::path& path, const char* path_help, ArrayNames& names);

}  // namespace troupe

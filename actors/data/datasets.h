#pragma once
// The data sets that options files can name. To add one, write its header and source, include it
// here and append it to known_datasets.

#include <string>
#include <vector>

#include "actors/data/idx_folder.h"
#include "actors/data/synthetic.h"

namespace troupe {

inline std::vector<DatasetSource> known_datasets() { return {IdxFolder{}, Synthetic{}}; }

/// The data set of that name with its default options. Throws Error{bad_options} for an unknown
/// name (with the known ones).
DatasetSource find_dataset(const std::string& name);

}  // namespace troupe

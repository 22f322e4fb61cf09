#include "actors/data/datasets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {

DatasetSource find_dataset(const std::string& name) {
  const std::vector<DatasetSource> datasets = known_datasets();
  std::vector<std::string_view> names;
  for (const DatasetSource& dataset : datasets) {
    if (dataset.name() == name) return dataset;
    names.push_back(dataset.name());
  }
  throw Error(
      ErrorCode::bad_options, fmt::format("`Dataset::name` is '{}'", name),
      did_you_mean(name, names, fmt::format("the data sets are {}", fmt::join(names, ", "))));
}

}  // namespace troupe

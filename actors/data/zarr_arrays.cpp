#include "actors/data/zarr_arrays.h"

#include <fmt/format.h>

#include "actors/data/chunked_arrays.h"
#include "runtime/error.h"
#include "runtime/file/zarr.h"

namespace troupe {
namespace {

void check_folder(const std::filesystem::path& path) {
  if (path.empty())
    throw Error(ErrorCode::io, "zarr has no `Dataset::path`",
                "set `Dataset::path` to the folder of the arrays x_train, y_train, x_test and "
                "y_test");
  if (std::error_code ignored; !std::filesystem::is_directory(path, ignored))
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::path` is {}, which is not a folder", path.string()),
                "give the folder of a zarr group; unpack a zip archive first");
}

}  // namespace

OptionFields ZarrArrays::options() {
  return array_options(path, "folder of a zarr group, of format 2 or 3", names);
}

DatasetSummary ZarrArrays::describe(const DatasetOptions& options) const {
  check_folder(path);
  return describe_arrays(name, path, ChunkedArrays(ZarrFolder(path)), names, options);
}

std::shared_ptr<const SampleReader> ZarrArrays::open(const DatasetOptions& options) const {
  check_folder(path);
  return open_arrays(name, path, ChunkedArrays(ZarrFolder(path)), names, options);
}

}  // namespace troupe

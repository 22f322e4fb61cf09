#include "actors/data/zarr_arrays.h"

#include <fmt/format.h>

#include "actors/data/chunked_arrays.h"
#include "runtime/error.h"
#include "runtime/file/zarr.h"

namespace troupe {

OptionFields ZarrArrays::options() {
  return array_options(path, "folder of a zarr group, of format 2 or 3", names);
}

std::shared_ptr<const SampleReader> ZarrArrays::open(const DatasetOptions& options) const {
  if (path.empty())
    throw Error(ErrorCode::io, "zarr has no `Dataset::path`",
                "set `Dataset::path` to the folder of the arrays x_train, y_train, x_test and "
                "y_test");
  if (std::error_code ignored; !std::filesystem::is_directory(path, ignored))
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::path` is {}, which is not a folder", path.string()),
                "give the folder of a zarr group; unpack a zip archive first");
  return open_arrays(name, path, ChunkedArrays(ZarrFolder(path)), names, options);
}

}  // namespace troupe

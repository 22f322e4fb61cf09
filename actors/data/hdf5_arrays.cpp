#include "actors/data/hdf5_arrays.h"

#include "actors/data/chunked_arrays.h"
#include "runtime/file/hdf5.h"

namespace troupe {

OptionFields Hdf5Arrays::options() {
  return array_options(path, "an HDF5 or netCDF-4 file", names);
}

DatasetSummary Hdf5Arrays::describe(const DatasetOptions& options) const {
  check_array_path(name, path);
  return describe_arrays(name, path, ChunkedArrays(Hdf5File(path)), names, options);
}

std::shared_ptr<const SampleReader> Hdf5Arrays::open(const DatasetOptions& options) const {
  check_array_path(name, path);
  return open_arrays(name, path, ChunkedArrays(Hdf5File(path)), names, options);
}

}  // namespace troupe

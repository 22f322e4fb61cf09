#pragma once
// Opens data sets whose arrays have names in one file or folder: .npz, HDF5 and zarr.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/data/array_dataset.h"
#include "actors/data/array_names.h"
#include "runtime/file/chunked_array.h"

namespace troupe {

/// A file or folder of named arrays.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  virtual std::vector<std::string> names() const = 0;  ///< for errors
  virtual bool contains(const std::string& name) const = 0;
  /// What these arrays, which are there, state of themselves. Only the headers are read. Throws
  /// Error{bad_file} for damaged ones.
  virtual std::vector<TensorInfo> headers(const std::vector<std::string>& names) const = 0;
  /// How read_samples() gives the array; read() brings into memory all but what is mapped.
  virtual ArrayAccess access(const std::string& /*name*/) const { return ArrayAccess::whole; }
  /// Throws Error{bad_file} if nothing was stored of the array, which is there, so that all of it
  /// is a fill value: a copy of the metadata alone looks like this.
  virtual void check_stored(const std::string& /*name*/) const {}
  /// The array, which is there, in memory. Throws Error{bad_file} for a damaged one.
  virtual Tensor read(const std::string& name) const = 0;
  /// The same, or a reader of its rows where they need not be in memory.
  virtual std::variant<Tensor, std::shared_ptr<const RowReader>> read_samples(
      const std::string& name) const {
    return read(name);
  }
};

/// Throws Error, with the name of the data set, unless `path` is an ordinary file.
void check_array_path(std::string_view name, const std::filesystem::path& path);

/// The data set of these arrays (actors/data/array_dataset.h). Throws Error{bad_options} for an
/// array that `file` does not have.
std::shared_ptr<const SampleReader> open_arrays(std::string_view name,
                                                const std::filesystem::path& path,
                                                const ArrayFile& file, const ArrayNames& names,
                                                const DatasetOptions& options);
/// The properties of that data set. Reads headers and targets.
DatasetSummary describe_arrays(std::string_view name, const std::filesystem::path& path,
                               const ArrayFile& file, const ArrayNames& names,
                               const DatasetOptions& options);

}  // namespace troupe

#pragma once
// Arrays in HDF5 files, to which those of netCDF-4 belong. libhdf5 reads a file's structure;
// elements are read, decompressed and checked here, within memory that is known before.
// https://docs.hdfgroup.org/hdf5/develop/_f_m_t3.html

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/file/chunked_array.h"
#include "runtime/tensor/named_tensor.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// An open file. Usable from any thread; one thread at a time is in libhdf5.
///
/// Reads data sets of numbers: integers of 1 to 8 bytes, f32 and f64, of either byte order,
/// contiguous, compact or chunked, with the filters deflate, shuffle and fletcher32. What leads
/// elsewhere is refused: soft and external links, external and virtual storage; so are filters of
/// plugins, which are never loaded. Sizes are compared with the file's before memory is allocated.
/// libhdf5 itself is not made for hostile files: its parser of the structure has had errors that
/// only newer versions repair.
class Hdf5File {
 public:
  /// Throws Error: io if the file cannot be opened, bad_file if it is of another kind or damaged.
  explicit Hdf5File(const std::filesystem::path& path);

  /// The names in the outermost group, at most 100.
  std::vector<std::string> names() const;
  /// Whether there is a link of this name, such as "x_train" or "group/x_train". Throws
  /// Error{bad_file} if a soft or an external link is on its way.
  bool contains(const std::string& name) const;
  /// What a data set states of itself. Throws as read().
  TensorInfo header(const std::string& name) const;
  /// How read() and chunked() give a data set. Throws as read().
  ArrayAccess access(const std::string& name) const;
  /// All of a data set: mapped if it is contiguous and in this host's byte order, else in memory.
  /// Throws Error{bad_file} for what is not read.
  Tensor read(const std::string& name) const;
  /// The same to be read row by row; null if it is not chunked.
  std::shared_ptr<const ChunkedArray> chunked(const std::string& name) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace troupe

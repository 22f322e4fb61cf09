#pragma once
// Arrays of zarr, formats 2 and 3, in folders:
// https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
// https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/file/chunked_array.h"
#include "runtime/tensor/named_tensor.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A folder with arrays in folders below it, usually a group. Immutable: any thread may read.
///
/// Reads arrays of numbers: integers of 1 to 8 bytes, f32 and f64, of either byte order, plain or
/// compressed by zlib (format 2), gzip, zstd or blosc, also with the checksum crc32c (format 3). A
/// chunk without a file consists of the fill value. Refused are the order F, the codec transpose,
/// shards, and filters of format 2. Metadata are compared with what a chunk may have before memory
/// is allocated, and chunks with the metadata.
class ZarrFolder {
 public:
  /// Throws Error: io if the folder cannot be read, bad_file if neither arrays nor groups are
  /// there.
  explicit ZarrFolder(std::filesystem::path path);

  /// The arrays and groups in the folder, at most 100, sorted.
  std::vector<std::string> names() const;
  /// Whether there is an array or a group of this name, such as "x_train" or "group/x_train". Names
  /// do not lead out of the folder; symbolic links may.
  bool contains(const std::string& name) const;
  /// What an array states of itself. Throws as read().
  TensorInfo header(const std::string& name) const;
  /// How chunked() gives an array.
  static ArrayAccess access(const std::string& /*name*/) { return ArrayAccess::by_row; }
  /// All of an array, in memory. Throws Error{bad_file} for what is not read.
  Tensor read(const std::string& name) const;
  /// The same to be read row by row; null if it has no elements. Throws Error{bad_file} also if no
  /// chunk has a file, which a copy of the metadata alone looks like.
  std::shared_ptr<const ChunkedArray> chunked(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace troupe

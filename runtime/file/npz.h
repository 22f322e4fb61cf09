#pragma once
// NumPy's archives of arrays (.npz): zip files of .npy files, stored or deflated, as
// numpy.savez and numpy.savez_compressed write them.

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/file/zip.h"
#include "runtime/tensor/named_tensor.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// An open archive. Immutable; usable from any thread.
class NpzArchive {
 public:
  /// Throws Error: io if the file cannot be opened, bad_file if it is no zip file or is damaged.
  explicit NpzArchive(const std::filesystem::path& path);

  /// The members' names, such as "x_train.npy".
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return zip_.find(name) != nullptr; }
  /// What the headers of these members state. No more than the headers is unpacked. Throws
  /// Error{bad_file} for what parse_npy refuses, for other methods of compression than deflate, for
  /// a member whose size is not what its header states, and if the members together have more bytes
  /// than memory_limit() states.
  std::vector<TensorInfo> headers(const std::vector<std::string>& names) const;
  /// The array of a member, in memory of its own. The checksum is verified. Before memory is
  /// allocated, the size is compared as by headers(), and with what the packed bytes can give.
  /// Throws Error{bad_file}, also as headers().
  Tensor read(const std::string& name) const;

 private:
  std::string origin(const std::string& name) const;

  ZipArchive zip_;
};

}  // namespace troupe

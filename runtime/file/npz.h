#pragma once
// NumPy's archives of arrays (.npz): zip files of .npy files, stored or deflated, as
// numpy.savez and numpy.savez_compressed write them.

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/file/zip.h"
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
  /// The array of a member, in memory of its own. The checksum is verified. Before memory is
  /// allocated, the size is compared with the memory of this host and with what the packed bytes
  /// can give. Throws Error{bad_file}, also for what parse_npy refuses, and for other methods of
  /// compression than deflate.
  Tensor read(const std::string& name) const;

 private:
  ZipArchive zip_;
};

}  // namespace troupe

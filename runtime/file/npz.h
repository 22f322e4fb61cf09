#pragma once
// NumPy's archives of arrays (.npz): zip files of .npy files, stored or deflated, as
// numpy.savez and numpy.savez_compressed write them.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// An open archive. Not thread-safe.
class NpzArchive {
 public:
  /// Throws Error: io if the file cannot be opened, bad_file if it is no zip file or is damaged.
  explicit NpzArchive(const std::filesystem::path& path);
  ~NpzArchive();
  NpzArchive(const NpzArchive&) = delete;
  NpzArchive& operator=(const NpzArchive&) = delete;

  /// The members' names, such as "x_train.npy".
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  /// The array of a member, in memory of its own. The checksum is verified. Before memory is
  /// allocated, the size is compared with that of the array by its header, and with the memory of
  /// this host. Throws Error{bad_file}, also for what parse_npy refuses, and for encrypted members
  /// and other methods of compression.
  Tensor read(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe

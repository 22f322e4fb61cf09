#pragma once
// The files of CIFAR, in a folder or an archive.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A form in which a data set is published.
struct CifarForm {
  std::string_view folder;              ///< in the archive
  std::string_view archive;             ///< its file
  std::vector<std::string_view> files;  ///< of the folder: batches for training, then one of test
  bool is_pickle = false;
  std::size_t label_bytes = 0;       ///< of a binary record; the last is the label
  std::string_view labels_key = {};  ///< of a pickle
};

/// CIFAR-10 or CIFAR-100.
struct CifarKind {
  std::string_view name;
  std::int64_t classes = 0;
  std::vector<CifarForm> forms;  ///< preferred ones first
};

/// Receives the bytes of a file, which stay alive during the call; `file` is its index in the form.
using TakeCifarFile =
    std::function<void(const CifarForm& form, std::size_t file, std::span<const std::byte> bytes,
                       const std::string& origin)>;

/// Calls `take` once for each file of the form that is at `path`, or without a path in
/// dataset_folder, in any order. Throws Error:
/// bad_options for a path that does not exist, io for a missing path or file, bad_file for an
/// archive that is damaged or lacks a file.
void read_cifar_files(const CifarKind& kind, const std::filesystem::path& path,
                      const TakeCifarFile& take);

}  // namespace troupe

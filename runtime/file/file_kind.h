#pragma once
#include <filesystem>
#include <string_view>

#include "runtime/error.h"

namespace troupe {

/// The kind of a file by its first bytes, for the kinds that users are likely to pass.
enum class FileKind {
  safetensors,
  idx,   ///< plain
  gzip,  ///< contains IDX, as data sets are shipped
  empty,
  torch_zip,     ///< a zip archive, as torch.save, torch.export and numpy.savez write it
  torch_pickle,  ///< written by torch.save before PyTorch 1.6; any other pickle
  numpy,
  hdf5,
  png,
  jpeg,
  unknown,
};

/// Reads the first bytes. Throws Error{io} if there is no such file.
FileKind file_kind(const std::filesystem::path& path);

/// The error for a file that a verb cannot read: its kind, which files the verb reads ("a
/// checkpoint or …"), and how to convert a pickle of PyTorch.
Error foreign_file(const std::filesystem::path& path, FileKind kind, std::string_view readable);

/// The files of weights that verbs read.
constexpr std::string_view weights_files =
    "a checkpoint, an output folder, or a PyTorch or safetensors file of weights";

}  // namespace troupe

#pragma once
#include <filesystem>

#include "runtime/error.h"

namespace troupe {

/// What a file is by its first bytes, as far as people are likely to name it to the command.
enum class FileKind {
  safetensors,
  idx,   ///< plain
  gzip,  ///< IDX inside, as data sets are shipped
  empty,
  torch_zip,     ///< what torch.save writes: a zip archive of pickles
  torch_pickle,  ///< what it wrote before PyTorch 1.6, and any other pickle
  numpy,
  hdf5,
  png,
  jpeg,
  unknown,
};

/// Reads the first bytes; throws Error{io} where there is no such file.
FileKind file_kind(const std::filesystem::path& path);

/// What to tell of a file that holds no weights, or nothing that the command reads: what it is,
/// what could be read instead, and how a PyTorch file is converted.
Error foreign_file(const std::filesystem::path& path, FileKind kind);

}  // namespace troupe

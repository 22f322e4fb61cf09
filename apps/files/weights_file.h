#pragma once
#include <filesystem>
#include <string>

#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// The weights and buffers that a file holds, without the optimizer's state; in memory once they
/// are asked for.
struct WeightsFile {
  std::filesystem::path path;  ///< the safetensors file, or the step's own folder
  TensorSource tensors;
  std::string options;    ///< a checkpoint's resolved options; empty for safetensors
  std::int64_t step = 0;  ///< of a checkpoint
};

/// A safetensors file or a checkpoint's folder itself; of an output folder the newest whole
/// checkpoint (what was skipped is told on stderr). Throws Error where there is none.
std::filesystem::path find_weights(const std::filesystem::path& path);

/// Opens what find_weights has found. Throws Error as the readers of its format do.
WeightsFile open_weights(const std::filesystem::path& found);

}  // namespace troupe

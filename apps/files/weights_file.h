#pragma once
#include <filesystem>
#include <string>

#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// The weights and buffers in a file, without the optimizer's state. If a checkpoint has a moving
/// average of the weights (Optimizer::with_average), the average is what it holds as weights.
/// Tensors are read when they are used.
struct WeightsFile {
  std::filesystem::path path;  ///< the safetensors file, or the step's own folder
  TensorSource tensors;
  std::string options;    ///< a checkpoint's resolved options; empty for safetensors
  std::int64_t step = 0;  ///< of a checkpoint
};

/// The path itself if it is a safetensors file or a checkpoint; the newest complete checkpoint of
/// an output folder (warns on stderr about skipped ones). Throws Error if there is none.
std::filesystem::path find_weights(const std::filesystem::path& path);

/// Opens what find_weights has found. If the names of all tensors begin with "module."
/// (DistributedDataParallel) or "_orig_mod." (torch.compile), the result has them without. Throws
/// Error as the readers of its format do.
WeightsFile open_weights(const std::filesystem::path& found);

}  // namespace troupe

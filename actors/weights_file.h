#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// The weights and buffers in a file, without the optimizer's state. If a checkpoint has a moving
/// average of the weights (Optimizer::with_average), the average is what it holds as weights.
/// Tensors are read when they are used.
struct WeightsFile {
  std::filesystem::path path;  ///< the file, or the step's own folder
  TensorSource tensors;
  std::string options;    ///< a checkpoint's resolved options; empty for other files
  std::int64_t step = 0;  ///< of a checkpoint
  std::map<std::string, std::string> run = {};  ///< Manifest::run of a checkpoint
  /// What in the file holds the weights, if not all of it: an entry of a PyTorch file
  /// ("model_state_dict"), or the moving average of a checkpoint.
  std::string part;
  std::vector<std::string> others;  ///< a PyTorch file's other entries

  /// For messages: the path, with the part if there is one: "w.pt (model_state_dict)".
  std::string name() const;
};

/// The path itself, which may name a part (torch_path), if it is a file, a checkpoint or a folder
/// of torch.distributed.checkpoint; the newest complete checkpoint of an output folder (warns on
/// stderr about skipped ones). Throws Error if there is none.
std::filesystem::path find_weights(const std::filesystem::path& path);

/// Opens what find_weights has found: also a .pt or .pth file of PyTorch, or a folder of
/// torch.distributed.checkpoint, as runtime/file/torch_file.h says. Throws Error as the readers of
/// its format do.
WeightsFile open_weights(const std::filesystem::path& found);

}  // namespace troupe

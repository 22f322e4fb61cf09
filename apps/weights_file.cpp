#include "apps/weights_file.h"

#include <fmt/format.h>

#include "apps/file_kind.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/safetensors.h"
#include "runtime/print.h"

namespace troupe {

WeightsFile open_weights(const std::filesystem::path& path) {
  WeightsFile result;
  if (!std::filesystem::is_directory(path)) {
    if (const FileKind kind = file_kind(path); kind != FileKind::safetensors)
      throw foreign_file(path, kind);
    result.path = path;
    result.tensors = SafetensorsFile::open(path).source();
    return result;
  }
  const CheckpointChoice choice = newest_whole_checkpoint(path);
  for (const auto& reason : choice.skipped)
    print_error("troupe: warning: passed over {}\n", reason);
  const Checkpoint checkpoint = open_checkpoint(choice.folder);
  result.path = choice.folder;
  result.tensors = checkpoint.source();
  std::erase_if(result.tensors.tensors,
                [](const TensorInfo& tensor) { return tensor.name.starts_with("optimizer."); });
  result.options = checkpoint.manifest().options;
  result.step = checkpoint.manifest().step;
  return result;
}

}  // namespace troupe

#include "apps/weights_file.h"

#include <fmt/format.h>

#include "apps/file_kind.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/safetensors.h"
#include "runtime/print.h"

namespace troupe {

WeightsFile read_weights(const std::filesystem::path& path) {
  WeightsFile result;
  if (!std::filesystem::is_directory(path)) {
    if (const FileKind kind = file_kind(path); kind != FileKind::safetensors)
      throw foreign_file(path, kind);
    result.path = path;
    result.tensors = read_safetensors(path).tensors;
    return result;
  }
  const CheckpointChoice choice = newest_whole_checkpoint(path);
  for (const auto& reason : choice.skipped)
    print_error("troupe: warning: passed over {}\n", reason);
  const Checkpoint checkpoint = open_checkpoint(choice.folder);
  std::vector<std::string> names;
  for (const auto& tensor : checkpoint.tensors())
    if (!tensor.name.starts_with("optimizer.")) names.push_back(tensor.name);
  result.path = choice.folder;
  result.tensors = load_tensors(checkpoint, names);
  result.options = checkpoint.manifest().options;
  result.step = checkpoint.manifest().step;
  return result;
}

}  // namespace troupe

#include "actors/weights_file.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "ops/optim/optimizer.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/file_kind.h"
#include "runtime/file/name_prefix.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/torch_file.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// The weights of a checkpoint, without the optimizer's state. If this has a moving average of the
/// weights, the average takes their place.
WeightsFile weights_of(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  TensorSource source = checkpoint.source();
  const std::string optimizer = "optimizer.";
  const std::string average = optimizer + std::string(average_name) + ".";
  std::set<std::string> averaged;
  for (const TensorInfo& tensor : source.tensors)
    if (tensor.name.starts_with(average)) averaged.insert(tensor.name.substr(average.size()));
  std::erase_if(source.tensors,
                [&](const TensorInfo& tensor) { return tensor.name.starts_with(optimizer); });
  source.read = [=, read = std::move(source.read)](const std::string& name) {
    return read(averaged.contains(name) ? average + name : name);
  };
  return {.path = folder,
          .tensors = std::move(source),
          .options = checkpoint.manifest().options,
          .step = checkpoint.manifest().step,
          .run = checkpoint.manifest().run,
          .part = averaged.empty() ? "" : "the moving average of the weights",
          .others = {}};
}

WeightsFile weights_of(const std::filesystem::path& path, TorchWeights weights) {
  return {.path = path,
          .tensors = std::move(weights.tensors),
          .options = {},
          .step = 0,
          .part = std::move(weights.part),
          .others = std::move(weights.others)};
}

}  // namespace

std::string WeightsFile::name() const {
  return part.empty() ? path.string() : fmt::format("{} ({})", path.string(), part);
}

std::filesystem::path find_weights(const std::filesystem::path& path) {
  const std::filesystem::path file = torch_path(path).path;
  if (!std::filesystem::is_directory(file) || is_distributed_checkpoint(file)) return path;
  const CheckpointChoice choice = newest_complete_checkpoint(path);
  for (const auto& reason : choice.skipped) print_warning("skipped {}", reason);
  return choice.folder;
}

WeightsFile open_weights(const std::filesystem::path& path) {
  const auto [found, part] = torch_path(path);
  if (is_distributed_checkpoint(found))
    return weights_of(found, open_distributed_checkpoint(found, part));
  WeightsFile result{.path = found, .tensors = {}, .options = {}, .part = {}, .others = {}};
  if (!std::filesystem::is_directory(found)) {
    const FileKind kind = file_kind(found);
    if (kind == FileKind::torch_zip) return weights_of(found, open_torch_file(found, part));
    if (kind != FileKind::safetensors) throw foreign_file(found, kind, weights_files);
    result.tensors = SafetensorsFile::open(found).source();
    if (is_name_prefix(part))
      result.tensors = without_prefix(std::move(result.tensors), part, found.string());
    else if (!part.empty())
      throw Error(ErrorCode::bad_file,
                  fmt::format("'{}' has no entry '{}': a safetensors file is one dictionary",
                              found.string(), printable(part)),
                  "omit the part after '#', or end it with '.' for a prefix of names");
    result.part = part;
    return result;
  }
  return weights_of(found, open_complete_checkpoint(found));
}

}  // namespace troupe

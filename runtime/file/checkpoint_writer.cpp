#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/file.h"
#include "runtime/file/manifest.h"

namespace troupe {
namespace {

/// Refuses what no reader could take apart again.
void check_content(const std::vector<ShardContent>& shards) {
  std::set<std::string_view> names;
  std::set<int> stages;
  for (const ShardContent& shard : shards) {
    if (shard.stage < 0 || !stages.insert(shard.stage).second)
      throw Error(
          ErrorCode::internal,
          fmt::format("writing a checkpoint: stage {} is negative or given twice", shard.stage));
    for (const NamedTensor& named : shard.tensors) {
      if (!names.insert(named.name).second)
        throw Error(ErrorCode::internal,
                    fmt::format("writing a checkpoint: two tensors are called '{}'", named.name),
                    "give every module of the model a name of its own");
    }
  }
}

std::string file_of(const ShardContent& shard) {
  return fmt::format("stage_{:02}.tensors", shard.stage);
}

ShardWriteOptions shard_options(const CheckpointWriteOptions& options) {
  return {.threads = options.threads, .block_bytes = options.block_bytes, .hook = options.hook};
}

/// Where processes leave their shards for the one that publishes them.
std::filesystem::path shards_folder(const std::filesystem::path& folder, std::int64_t step) {
  return AtomicFolder::beside(folder / checkpoint_name(step), "shards");
}

bool has(const std::filesystem::path& checkpoint, const ShardInfo& shard) {
  try {
    const Checkpoint published = open_checkpoint(checkpoint);
    return std::ranges::find(published.manifest().shards, shard) !=
           published.manifest().shards.end();
  } catch (const Error&) {
    return false;
  }
}

/// Gives shards that others have written their places. `earlier`: where this checkpoint may have
/// been published before.
Status move_in(const std::vector<ShardInfo>& shards, const std::filesystem::path& from,
               const std::filesystem::path& earlier, const std::filesystem::path& staging) {
  for (const ShardInfo& shard : shards) {
    std::error_code failed;
    std::filesystem::rename(from / shard.file, staging / shard.file, failed);
    if (failed == std::errc::no_such_file_or_directory && has(earlier, shard))
      std::filesystem::create_hard_link(earlier / shard.file, staging / shard.file, failed);
    if (failed)
      return Error(ErrorCode::io,
                   fmt::format("moving {} of another process into the checkpoint: {}",
                               (from / shard.file).string(), failed.message()),
                   "the output folder must be on a file system that all processes share");
  }
  return success();
}

}  // namespace

Result<std::vector<ShardInfo>> write_shards(const std::filesystem::path& folder, std::int64_t step,
                                            const std::vector<ShardContent>& shards,
                                            const CheckpointWriteOptions& options) {
  check_content(shards);
  const std::filesystem::path place = shards_folder(folder, step);
  std::error_code failed;
  std::filesystem::create_directories(place, failed);
  if (failed)
    return Error(ErrorCode::io,
                 fmt::format("creating folder {}: {}", place.string(), failed.message()));
  std::vector<ShardInfo> written;
  for (const ShardContent& shard : shards) {
    const std::filesystem::path path = place / file_of(shard);
    std::filesystem::remove(path, failed);  // of a process that died
    const Result<ShardSummary> summary = write_shard(path, shard.tensors, shard_options(options));
    if (!summary) return summary.error();
    written.push_back({file_of(shard), shard.stage, summary.value()});
  }
  return written;
}

Status discard_shards(const std::filesystem::path& folder, std::int64_t step) {
  const std::filesystem::path place = shards_folder(folder, step);
  std::error_code failed;
  std::filesystem::remove_all(place, failed);
  if (failed) return system_error("removing", place, failed.value());
  return success();
}

Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& folder,
                                               Manifest manifest,
                                               const std::vector<ShardContent>& shards,
                                               const CheckpointWriteOptions& options,
                                               const std::vector<ShardInfo>& elsewhere) {
  check_content(shards);
  if (manifest.step < 0)
    throw Error(ErrorCode::internal, fmt::format("a checkpoint of step {}", manifest.step));
  if (manifest.created.empty())
    manifest.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  manifest.shards.clear();
  // Throws for what could not be read back, before anything is written.
  parse_manifest(manifest_text(manifest), "the manifest to be written");

  const std::filesystem::path target = folder / checkpoint_name(manifest.step);
  Result<AtomicFolder> created = AtomicFolder::create(target, options.hook);
  if (!created) return created.error();
  const std::filesystem::path& staging = created.value().staging();
  for (const ShardContent& shard : shards) {
    const Result<ShardSummary> summary =
        write_shard(staging / file_of(shard), shard.tensors, shard_options(options));
    if (!summary) return summary.error();
    manifest.shards.push_back({file_of(shard), shard.stage, summary.value()});
  }
  if (const Status moved =
          move_in(elsewhere, shards_folder(folder, manifest.step), target, staging);
      !moved)
    return moved.error();
  manifest.shards.insert(manifest.shards.end(), elsewhere.begin(), elsewhere.end());
  std::ranges::sort(manifest.shards, {}, &ShardInfo::stage);

  const std::string text = manifest_text(manifest);
  Result<OutputFile> file = OutputFile::create(staging / manifest_file, options.hook);
  if (!file) return file.error();
  Status status = file.value().write_at(0, as_bytes(text));
  if (status) status = file.value().sync();
  if (status) status = created.value().publish();
  if (!status) return status.error();
  return target;
}

}  // namespace troupe

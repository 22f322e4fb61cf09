#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <set>

#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
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

}  // namespace

Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& folder,
                                               Manifest manifest,
                                               const std::vector<ShardContent>& shards,
                                               const CheckpointWriteOptions& options) {
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
  const ShardWriteOptions writing{
      .threads = options.threads, .block_bytes = options.block_bytes, .hook = options.hook};
  for (const ShardContent& shard : shards) {
    const std::string file = fmt::format("stage_{:02}.tensors", shard.stage);
    const Result<ShardSummary> summary = write_shard(staging / file, shard.tensors, writing);
    if (!summary) return summary.error();
    manifest.shards.push_back({file, shard.stage, summary.value()});
  }

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

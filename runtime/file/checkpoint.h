#pragma once
// A checkpoint: the complete state of a run at one step, as a folder
//
//   step_00000500/
//     stage_00.tensors, stage_01.tensors, …   one shard per stage (shard.h)
//     manifest.json                           the shards, and the run that wrote them
//
// The writer creates a staging folder beside the final folder and renames it, so a folder of this
// name is always complete. The writers determine the division into shards; a reader sees one list
// of tensors.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/shard.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// A shard as the manifest lists it.
struct ShardInfo {
  std::string file;  ///< "stage_00.tensors"
  int stage = 0;
  ShardSummary summary;

  bool operator==(const ShardInfo&) const = default;
  static void members(auto& self, auto& visit) {
    visit(self.file);
    visit(self.stage);
    visit(self.summary.bytes);
    visit(self.summary.index_checksum);
  }
};

/// manifest.json. Its last member is the checksum of the text before it.
struct Manifest {
  std::int64_t step = 0;         ///< optimizer steps that are in the state
  std::uint64_t generation = 0;  ///< of the world that wrote it
  std::string created;           ///< UTC, "2026-11-21T11:37:42Z"; empty: the time of writing
  std::map<std::string, std::string> run;  ///< about the writer: version, host, model, threads, …
  std::string options;                     ///< the resolved options file of the run
  std::string position = "null";  ///< the position in the data, the random key, …: any JSON
  std::vector<ShardInfo> shards;  ///< set by write_checkpoint
};

/// The content of one stage in a checkpoint. Tensors must not change until it is written.
struct ShardContent {
  int stage = 0;
  std::vector<NamedTensor> tensors;
};

struct CheckpointWriteOptions {
  int threads = 1;  ///< that compress and write, the caller included
  WriteHook hook;
  std::size_t block_bytes = ShardWriteOptions{}.block_bytes;
};

/// Writes `folder`/step_<step>/ and returns its path. It writes and syncs the shards, then the
/// manifest, then renames the folder. A crash at any time leaves older checkpoints unchanged, and
/// at most a hidden folder that prune_checkpoints() removes. A checkpoint of the same step is
/// replaced. Shards from `elsewhere` (write_shards) are moved in, or linked from that checkpoint if
/// it has them: its writer may have failed after it had published them.
///
/// Returns an error of the file system. Throws Error (internal) on names that appear twice, on
/// tensors that are not row-major on the CPU, and on a position that is not JSON.
Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& folder,
                                               Manifest manifest,
                                               const std::vector<ShardContent>& shards,
                                               const CheckpointWriteOptions& options = {},
                                               const std::vector<ShardInfo>& elsewhere = {});

/// Writes and syncs shards of the checkpoint `folder`/step_<step>/ into a hidden folder beside its
/// place, for another process to publish. The processes must share the file system.
Result<std::vector<ShardInfo>> write_shards(const std::filesystem::path& folder, std::int64_t step,
                                            const std::vector<ShardContent>& shards,
                                            const CheckpointWriteOptions& options = {});

/// Removes the shards of a checkpoint that will not be published, so that the next attempt has room
/// on a full disk. Call it when no process writes there any more.
Status discard_shards(const std::filesystem::path& folder, std::int64_t step);

/// The entry of a tensor in a checkpoint.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int stage = 0;
  std::uint64_t stored_bytes = 0;
};

/// An open checkpoint. A cheap handle; usable from any thread. The files are mapped, so it stays
/// readable after it has been pruned.
class Checkpoint {
 public:
  const Manifest& manifest() const;
  /// Of all shards, in the order of their names.
  const std::vector<StoredTensor>& tensors() const;
  /// Its tensors one by one, read as by load_tensors.
  TensorSource source() const;
  /// Verifies the checksum of every stored byte, without decompression; throws Error (bad_file).
  void verify(int threads = 1) const;

 private:
  friend Checkpoint open_checkpoint(const std::filesystem::path& folder);
  friend std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint,
                                               std::span<const std::string> names, int threads);
  struct State;
  std::shared_ptr<const State> state_;
};

/// Reads the manifest and the indices and checks that they agree. Throws Error (io, bad_file) with
/// file, value and remedy. `folder` is the step's own folder.
Checkpoint open_checkpoint(const std::filesystem::path& folder);

/// The tensors of these names, in this order, in new memory, with verified checksums. Throws Error
/// (bad_file) for damage and unknown names.
std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint,
                                      std::span<const std::string> names, int threads = 1);
/// For programs: all tensors, in the order of their names.
std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint, int threads = 1);

}  // namespace troupe

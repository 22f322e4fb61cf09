#pragma once
// A checkpoint: the whole state of a run at one step, as a folder
//
//   step_00000500/
//     stage_00.tensors, stage_01.tensors, …   one shard a stage (shard.h)
//     manifest.json                           what belongs together, and the run it came from
//
// It is written beside its place and renamed, so that a folder of this name is always whole. The
// cut into shards is only how it was written: a reader sees one list of tensors.

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
  std::map<std::string, std::string> run;  ///< who wrote it: version, host, model, threads, …
  std::string options;                     ///< the resolved options file of the run
  std::string position = "null";           ///< where the data are, the random key, …: any JSON
  std::vector<ShardInfo> shards;           ///< set by write_checkpoint
};

/// What one stage puts into a checkpoint. Tensors must not change until it is written.
struct ShardContent {
  int stage = 0;
  std::vector<NamedTensor> tensors;
};

struct CheckpointWriteOptions {
  int threads = 1;  ///< that pack and write, the caller included
  WriteHook hook;
  std::size_t block_bytes = ShardWriteOptions{}.block_bytes;
};

/// Writes `folder`/step_<step>/ and returns its path. Shards first, each synced, then the manifest,
/// then the folder's name; so a death at any moment leaves older checkpoints as they were and at
/// most a hidden folder for prune_checkpoints(). A checkpoint of the same step is replaced. Shards
/// from `elsewhere` (write_shards) are moved in.
///
/// Returns what the file system refused. Throws Error (internal) on names that appear twice, on
/// tensors that are not row-major on the CPU, and on a position that is not JSON.
Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& folder,
                                               Manifest manifest,
                                               const std::vector<ShardContent>& shards,
                                               const CheckpointWriteOptions& options = {},
                                               const std::vector<ShardInfo>& elsewhere = {});

/// Writes shards of the checkpoint `folder`/step_<step>/ for somebody else to publish, into a
/// hidden folder beside its place, each synced. For processes that share the file system.
Result<std::vector<ShardInfo>> write_shards(const std::filesystem::path& folder, std::int64_t step,
                                            const std::vector<ShardContent>& shards,
                                            const CheckpointWriteOptions& options = {});

/// Removes what write_shards has left of a checkpoint that is not to be published, so that the next
/// attempt on a full disk has the room. Once no process writes there any more.
Status discard_shards(const std::filesystem::path& folder, std::int64_t step);

/// What a checkpoint says of a tensor.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int stage = 0;
  std::uint64_t stored_bytes = 0;
};

/// An opened checkpoint. A cheap handle; usable from any thread. The files are mapped, so it stays
/// readable when it is pruned meanwhile.
class Checkpoint {
 public:
  const Manifest& manifest() const;
  /// Of all shards, in the order of their names.
  const std::vector<StoredTensor>& tensors() const;
  /// Its tensors one by one, as load_tensors reads them.
  TensorSource source() const;
  /// Holds every stored byte against its checksum without unpacking; throws Error (bad_file).
  void verify(int threads = 1) const;

 private:
  friend Checkpoint open_checkpoint(const std::filesystem::path& folder);
  friend std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint,
                                               std::span<const std::string> names, int threads);
  struct State;
  std::shared_ptr<const State> state_;
};

/// Reads the manifest and the indices and checks that all fit together. Throws Error (io,
/// bad_file) with file, value and remedy. `folder` is the step's own folder.
Checkpoint open_checkpoint(const std::filesystem::path& folder);

/// The tensors of these names in this order, in new memory, with their checksums verified.
/// Throws Error (bad_file) on damage and on names that are not there.
std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint,
                                      std::span<const std::string> names, int threads = 1);
/// For programs: all tensors, in the order of their names.
std::vector<NamedTensor> load_tensors(const Checkpoint& checkpoint, int threads = 1);

}  // namespace troupe

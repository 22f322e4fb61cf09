#pragma once
// A shard: a file with the tensors of one stage. All numbers are little-endian.
//
//   8 bytes   "troupe1\n"
//   blocks    of the first tensor, then of the second, …, without gaps (block.h)
//   index     JSON: {"block_bytes": B, "tensors": [{"name", "dtype", "shape", "stored",
//   "checksums"}]}
//             "stored" and "checksums" hold a value for each block: its length here, its XXH3;
//             a block stored in as many bytes as it has is not compressed
//   24 bytes  u64 length of the index, u64 XXH3 of the index, "1epuort\n"
//
// So a writer writes sequentially, a checksum covers every byte, and a shard can be read without
// the rest of its checkpoint.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/block.h"
#include "runtime/file/file.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

struct ShardWriteOptions {
  int threads = 1;
  /// Raw bytes of a block, a multiple of 8 up to 64 MiB. Half a MiB and its compressed form fit
  /// into a core's second-level cache.
  std::size_t block_bytes = std::size_t{512} << 10;
  WriteHook hook;
};

/// The entry of a shard in a manifest.
struct ShardSummary {
  std::uint64_t bytes = 0;           ///< length of the file
  std::uint64_t index_checksum = 0;  ///< covers the whole file, through the checksums in the index

  bool operator==(const ShardSummary&) const = default;
};

/// Writes and syncs a new file. The same tensors give the same bytes for any number of threads.
/// Throws Error (internal) for tensors that are not row-major on the CPU.
Result<ShardSummary> write_shard(const std::filesystem::path& path,
                                 const std::vector<NamedTensor>& tensors,
                                 const ShardWriteOptions& options);

/// The place of a tensor in a shard.
struct ShardEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::uint64_t> begins;  ///< file offsets; one more than blocks, the last is the end
  std::vector<std::uint64_t> checksums;

  std::uint64_t raw_bytes() const {
    return static_cast<std::uint64_t>(shape.element_count()) * size_of(dtype);
  }
  std::uint64_t stored_bytes() const { return begins.back() - begins.front(); }
  std::size_t blocks() const { return checksums.size(); }
};

/// Reads a shard. Immutable; several threads may call its methods. Throws Error (bad_file) with
/// file, tensor and values for inconsistent content and wrong checksums.
class ShardReader {
 public:
  /// Verifies everything except the blocks. `owner` keeps `bytes` alive; with null the caller does.
  ShardReader(std::span<const std::byte> bytes, std::string origin,
              std::shared_ptr<const void> owner = nullptr);

  const std::vector<ShardEntry>& entries() const { return entries_; }
  std::uint64_t index_checksum() const { return index_checksum_; }
  /// Verifies the checksum of a block.
  void verify_block(const ShardEntry& entry, std::size_t block) const;
  /// Verifies a block and decompresses it to its place in `tensor`, which Tensor::empty has made
  /// with the entry's shape and type.
  void load_block(const ShardEntry& entry, std::size_t block, const Tensor& tensor,
                  BlockScratch& scratch) const;

 private:
  std::span<const std::byte> stored(const ShardEntry& entry, std::size_t block) const;
  void parse_index(std::string_view text);
  [[noreturn]] void fail(const std::string& what) const;

  std::span<const std::byte> bytes_;
  std::string origin_;
  std::shared_ptr<const void> owner_;
  std::size_t block_bytes_ = 0;
  std::uint64_t index_checksum_ = 0;
  std::vector<ShardEntry> entries_;
};

}  // namespace troupe

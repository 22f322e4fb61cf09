#pragma once
// A block: a part of a tensor as a checkpoint stores it. Blocks are compressed and verified
// separately, so any number of threads can work on one tensor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// The largest ratio of decompressed to compressed size in LZ4, whose format needs a byte for each
/// 255 bytes of a match.
inline constexpr std::size_t lz4_largest_ratio = 255;

/// Memory that compression and decompression reuse; one per thread.
struct BlockScratch {
  std::vector<std::byte> shuffled;
  std::vector<std::byte> packed;
  std::vector<std::uint64_t> lz4_state;
};

/// Returns `raw` byte-shuffled and compressed as one LZ4 block, in `scratch`; or `raw` itself if
/// that is not smaller. A stored block of the raw length is therefore not compressed. A block of 64
/// KiB or more whose sample (16 KiB from four places) shrinks by less than a tenth is not
/// compressed (docs/decisions/checkpoint-blocks.md). The result depends only on `raw` and its
/// element size.
std::span<const std::byte> pack_block(std::span<const std::byte> raw, std::size_t element_bytes,
                                      BlockScratch& scratch);

/// The inverse. `raw` has the expected size; returns false if the stored bytes do not give it.
[[nodiscard]] bool unpack_block(std::span<const std::byte> stored, std::size_t element_bytes,
                                std::span<std::byte> raw, BlockScratch& scratch);

/// XXH3, 64 bits: the checksum of blocks, indices and manifests.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace troupe

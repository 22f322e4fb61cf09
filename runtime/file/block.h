#pragma once
// A block: a stretch of a tensor as a checkpoint stores it, packed and checked on its own so that
// any number of threads work on one tensor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// LZ4 never expands by more than this (its format spends a byte on each 255 of a match).
inline constexpr std::size_t lz4_largest_ratio = 255;

/// Memory that packing and unpacking reuse. One a thread.
struct BlockScratch {
  std::vector<std::byte> shuffled;
  std::vector<std::byte> packed;
  std::vector<std::uint64_t> lz4_state;
};

/// Byte-shuffled and compressed as one LZ4 block; or `raw` itself where that would not be smaller,
/// so that a stored block as long as the raw one is the raw one. A block of 64 KiB or more whose
/// sample (16 KiB from four places) shrinks by less than a tenth is not tried: packing would cost
/// more time than the bytes that it saves (docs/decisions/checkpoint-blocks.md). The result depends
/// on `raw` and the size of its elements alone; it lies in `scratch` or is `raw`.
std::span<const std::byte> pack_block(std::span<const std::byte> raw, std::size_t element_bytes,
                                      BlockScratch& scratch);

/// The inverse. `raw` has the size that is expected; false where the stored bytes do not give it.
[[nodiscard]] bool unpack_block(std::span<const std::byte> stored, std::size_t element_bytes,
                                std::span<std::byte> raw, BlockScratch& scratch);

/// XXH3 with 64 bits: the checksum of blocks, indices and manifests.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace troupe

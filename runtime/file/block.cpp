#include "runtime/file/block.h"

#include <lz4.h>
#include <xxhash.h>

#include <array>
#include <cstring>

#include "runtime/file/shuffle.h"

namespace troupe {
namespace {

// Higher is faster and packs less. On random-normal floats 1 to 4 cost the same, as the three
// incompressible quarters are skipped at once and the quarter with the exponents takes the time.
constexpr int acceleration = 1;

// The sample of a block: so many stretches of so many bytes, spread evenly.
constexpr std::size_t stretches = 4;
constexpr std::size_t stretch_bytes = 4096;
constexpr std::size_t sample_bytes = stretches * stretch_bytes;
constexpr std::size_t smallest_sampled_block = 4 * sample_bytes;

const char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

/// The length of the LZ4 block made in scratch.packed, or 0 where it would be longer than `most`.
std::size_t compress(std::span<const std::byte> bytes, std::size_t most, BlockScratch& scratch) {
  if (scratch.packed.size() < most) scratch.packed.resize(most);
  scratch.lz4_state.resize((static_cast<std::size_t>(LZ4_sizeofState()) + 7) / 8);
  // Given no more room than this, LZ4 gives up as soon as it sees that it does not suffice.
  const int size = LZ4_compress_fast_extState(
      scratch.lz4_state.data(), chars(bytes), reinterpret_cast<char*>(scratch.packed.data()),
      static_cast<int>(bytes.size()), static_cast<int>(most), acceleration);
  return size > 0 ? static_cast<std::size_t>(size) : 0;
}

/// Whether the sample shrinks by a tenth.
bool is_worth_packing(std::span<const std::byte> raw, std::size_t element_bytes,
                      BlockScratch& scratch) {
  if (raw.size() < smallest_sampled_block) return true;
  std::array<std::byte, sample_bytes> sample, shuffled;
  // Every stretch begins with a whole element: 8 divides the distance.
  const std::size_t distance = (raw.size() - stretch_bytes) / (stretches - 1) / 8 * 8;
  for (std::size_t i = 0; i < stretches; ++i)
    std::memcpy(&sample[i * stretch_bytes], &raw[i * distance], stretch_bytes);
  shuffle_bytes(sample, element_bytes, shuffled);
  return compress(shuffled, sample_bytes - sample_bytes / 10, scratch) > 0;
}

}  // namespace

std::span<const std::byte> pack_block(std::span<const std::byte> raw, std::size_t element_bytes,
                                      BlockScratch& scratch) {
  if (raw.size() < 2 || !is_worth_packing(raw, element_bytes, scratch)) return raw;
  scratch.shuffled.resize(raw.size());
  shuffle_bytes(raw, element_bytes, scratch.shuffled);
  const std::size_t size = compress(scratch.shuffled, raw.size() - 1, scratch);
  return size == 0 ? raw : std::span(scratch.packed).first(size);
}

bool unpack_block(std::span<const std::byte> stored, std::size_t element_bytes,
                  std::span<std::byte> raw, BlockScratch& scratch) {
  if (stored.size() == raw.size()) {
    if (!raw.empty()) std::memcpy(raw.data(), stored.data(), raw.size());
    return true;
  }
  scratch.shuffled.resize(raw.size());
  const int size =
      LZ4_decompress_safe(chars(stored), reinterpret_cast<char*>(scratch.shuffled.data()),
                          static_cast<int>(stored.size()), static_cast<int>(raw.size()));
  if (size < 0 || static_cast<std::size_t>(size) != raw.size()) return false;
  unshuffle_bytes(scratch.shuffled, element_bytes, raw);
  return true;
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace troupe

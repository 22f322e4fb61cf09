#include "runtime/file/block.h"

#include <lz4.h>
#include <xxhash.h>

#include <cstring>

#include "runtime/file/shuffle.h"

namespace troupe {
namespace {

// Higher is faster and packs less. On random-normal floats 1 to 4 cost the same, as the three
// incompressible quarters are skipped at once and the quarter with the exponents takes the time.
constexpr int acceleration = 1;

const char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

}  // namespace

std::span<const std::byte> pack_block(std::span<const std::byte> raw, std::size_t element_bytes,
                                      BlockScratch& scratch) {
  if (raw.size() < 2) return raw;
  scratch.shuffled.resize(raw.size());
  scratch.packed.resize(raw.size());
  scratch.lz4_state.resize((static_cast<std::size_t>(LZ4_sizeofState()) + 7) / 8);
  shuffle_bytes(raw, element_bytes, scratch.shuffled);
  // Given less room than the raw block takes, LZ4 gives up as soon as it sees no gain.
  const int size = LZ4_compress_fast_extState(scratch.lz4_state.data(), chars(scratch.shuffled),
                                              reinterpret_cast<char*>(scratch.packed.data()),
                                              static_cast<int>(raw.size()),
                                              static_cast<int>(raw.size() - 1), acceleration);
  if (size <= 0) return raw;
  return std::span(scratch.packed).first(static_cast<std::size_t>(size));
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

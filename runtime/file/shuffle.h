#pragma once
// Byte shuffling: the first bytes of all elements, then the second bytes, and so on. Exponents of
// neighbouring weights are similar, so they compress well side by side.

#include <cstddef>
#include <span>

namespace troupe {

/// out[k * n + i] = in[i * element_bytes + k] for n elements of 1, 2, 4 or 8 bytes. The spans have
/// the same size, a multiple of element_bytes, and do not overlap.
void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out);

/// The inverse of shuffle_bytes.
void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                     std::span<std::byte> out);

}  // namespace troupe

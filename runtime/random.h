#pragma once
// Counter-based random numbers: a pure function of their purpose, so they do not depend on threads,
// placement, order or restarts. Any thread may call these functions; none fails.
//
// Philox4x32-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
// section 3.3 and table 2.

#include <array>
#include <cstdint>
#include <string_view>

namespace troupe {

/// Four 32-bit numbers from a 128-bit counter and a 64-bit key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// Names a sequence of random numbers. Equal keys give equal sequences, on every machine.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;         ///< optimizer step, or epoch for numbers of an epoch
  std::uint32_t micro_batch = 0;  ///< global micro-batch index, or sample index
  std::uint32_t operation = 0;    ///< operation_id() of the operation's path

  /// The four numbers of `block`: element e of a tensor takes number e % 4 of block e / 4.
  std::array<std::uint32_t, 4> block(std::uint32_t block) const {
    return philox({block, operation, micro_batch, step},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
};

/// Identifies an operation by its dotted path ("block1.dropout"), independent of its stage: 32-bit
/// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo, offset basis 2166136261, prime 16777619).
constexpr std::uint32_t operation_id(std::string_view path) {
  std::uint32_t hash = 2166136261u;
  for (char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

/// Uniform in [0, 1) with 24 bits, from one 32-bit number.
constexpr float uniform_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

/// Four numbers of N(0, 1) from the four of a block, two from each pair, by the method of G. E. P.
/// Box, M. E. Muller, "A note on the generation of random normal deviates", 1958. Machines whose
/// mathematical libraries differ may differ in the last bit of an f64.
std::array<double, 4> normal_numbers(const std::array<std::uint32_t, 4>& bits);

}  // namespace troupe

#include "runtime/random.h"

#include <cmath>
#include <numbers>

namespace troupe {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                    std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

std::array<double, 4> normal_numbers(const std::array<std::uint32_t, 4>& bits) {
  std::array<double, 4> result{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double u = (bits[pair] + 1.0) * 0x1p-32;  // in (0, 1], so that the logarithm is finite
    const double radius = std::sqrt(-2.0 * std::log(u));
    const double angle = 2.0 * std::numbers::pi * (bits[pair + 1] * 0x1p-32);
    result[pair] = radius * std::cos(angle);
    result[pair + 1] = radius * std::sin(angle);
  }
  return result;
}

}  // namespace troupe

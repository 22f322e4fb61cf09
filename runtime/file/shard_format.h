#pragma once
// The constants of the shard format, for its writer and its reader (shard.h).

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::shard_format {

inline constexpr std::string_view head = "troupe1\n";
inline constexpr std::string_view tail = "1epuort\n";
inline constexpr std::size_t trailer_bytes = 2 * sizeof(std::uint64_t) + tail.size();
inline constexpr std::size_t largest_block = std::size_t{64} << 20;

inline constexpr bool is_block_size(std::uint64_t bytes) {
  return bytes > 0 && bytes <= largest_block && bytes % 8 == 0;
}

/// The number of blocks of a tensor.
inline constexpr std::uint64_t block_count(std::uint64_t raw_bytes, std::uint64_t block_bytes) {
  return raw_bytes / block_bytes + (raw_bytes % block_bytes != 0);
}

}  // namespace troupe::shard_format

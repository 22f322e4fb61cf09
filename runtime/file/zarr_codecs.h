#pragma once
// How the chunks of zarr are compressed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::zarr {

enum class Codec : std::uint8_t { zlib, gzip, zstd, blosc, crc32c };

/// The most bytes that this number of codecs makes of a chunk.
std::size_t most_stored_bytes(std::size_t chunk_bytes, std::size_t codecs);

/// Undoes the codecs, which are in the order of writing. The result has `chunk_bytes`; memory is
/// bounded by that, whatever the stored bytes state. Throws Error{bad_file} with `origin` for
/// damaged data and other sizes. Any thread may call it.
std::vector<std::byte> decoded(std::vector<std::byte> stored, std::span<const Codec> codecs,
                               std::size_t chunk_bytes, const std::string& origin);

inline constexpr const char* damaged = "the array is damaged or truncated: write it again";

/// How errors of an array or a folder begin.
std::string title(const std::string& origin);

/// Throws Error{bad_file} that names the array.
[[noreturn]] void fail(const std::string& origin, const std::string& what,
                       const std::string& remedy = damaged);

}  // namespace troupe::zarr

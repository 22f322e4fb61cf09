#pragma once
// The filters of HDF5's chunks: https://docs.hdfgroup.org/hdf5/develop/_f_m_t3.html, "Filter
// Pipeline Message".

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::hdf5 {

enum class Filter : std::uint8_t {
  deflate,     ///< zlib's format
  shuffle,     ///< the first bytes of all elements, then the second ones …
  fletcher32,  ///< a checksum of four bytes at the end
};

/// The most bytes that the filters can make of a chunk.
std::size_t most_stored_bytes(std::size_t chunk_bytes);

/// Undoes the filters of a stored chunk, but those whose bit is set in `skipped`. The result has
/// `chunk_bytes`; no more memory is used than for that and for `stored`. Throws Error{bad_file}
/// with `origin` for damaged data and other sizes.
std::vector<std::byte> unfiltered(std::vector<std::byte> stored, std::span<const Filter> filters,
                                  std::uint32_t skipped, std::size_t chunk_bytes,
                                  std::size_t element_bytes, const std::string& origin);

}  // namespace troupe::hdf5

#pragma once
// What a data set of an HDF5 file states of itself, checked before anything is read of it.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/file/chunked_array.h"
#include "runtime/file/hdf5_filters.h"

namespace troupe::hdf5 {

class Id;

struct SetLayout : ChunkedLayout {
  enum class Kind : std::uint8_t { compact, contiguous, chunked };
  Kind kind = Kind::contiguous;
  std::uint64_t offset = 0;          ///< of contiguous elements in the file
  std::vector<Filter> filters = {};  ///< in the order of writing
  bool filters_edges = true;         ///< also chunks that reach beyond the end of an axis
};

/// Of an open data set in a file of that many bytes; the library's lock is held. Throws
/// Error{bad_file} for what is not read, and where the elements cannot be in the file.
SetLayout layout_of(const Id& set, std::uint64_t file_bytes, const std::string& origin);

}  // namespace troupe::hdf5

#pragma once
// What an array of zarr states of itself, checked before anything else is read of it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/file/chunked_array.h"
#include "runtime/file/zarr_codecs.h"

namespace troupe::zarr {

struct Metadata : ChunkedLayout {
  std::vector<std::byte> fill;  ///< one element, in the byte order of the chunks
  std::vector<Codec> codecs;    ///< in the order of writing
  std::string key_prefix;       ///< of a chunk's file, before its numbers in the grid
  char separator = '.';         ///< between these numbers

  /// The path of a chunk's file below the array's folder.
  std::string key(const ChunkedArray::Place& first) const;
  /// What a path below the array's folder is, by its name.
  enum class Named : std::uint8_t { nothing, folder_of_chunks, chunk };
  Named named_by(std::string_view path) const;
};

/// The array that `.zarray` (format 2) or `zarr.json` (format 3) describes. Throws Error{bad_file}
/// with `origin` for what is not read.
Metadata parse_format_2(std::string_view text, const std::string& origin);
Metadata parse_format_3(std::string_view text, const std::string& origin);

/// Throws Error{bad_file} for a group in place of an array.
[[noreturn]] void fail_as_group(const std::string& origin);

}  // namespace troupe::zarr

#pragma once
// A chunked data set of an HDF5 file, read row by row.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/file/hdf5_layout.h"

namespace troupe {

/// Immutable: any thread may read. Unpacked chunks are kept while there is room, so a data set that
/// fits there is unpacked once. Chunks are unpacked by the threads that need them, side by side.
class Hdf5Chunks {
 public:
  struct Stored {
    std::vector<std::byte> bytes;
    std::uint32_t skipped = 0;  ///< a bit for each filter that was not applied
  };
  using Place = std::array<std::int64_t, Shape::max_rank>;
  /// Reads the chunk whose first element is there, still packed.
  using Fetch = std::function<Stored(const Place& first)>;

  static constexpr std::size_t usual_cache_bytes = std::size_t{1} << 28;

  /// Errors name the data set as `origin`.
  Hdf5Chunks(hdf5::SetLayout layout, Fetch fetch, std::string origin,
             std::size_t cache_bytes = usual_cache_bytes);

  const Shape& shape() const { return layout_.shape; }
  DType dtype() const { return layout_.dtype; }
  std::size_t row_bytes() const;
  /// Writes an entry of the outermost axis to `out`, which has row_bytes(), in this host's byte
  /// order. Throws Error{bad_file} for damaged chunks and those that were never written.
  void read_row(std::int64_t row, std::span<std::byte> out) const;

 private:
  using Chunk = std::shared_ptr<const std::vector<std::byte>>;

  std::size_t chunk_bytes() const;
  Chunk unpacked(const Place& place) const;
  void copy(const Place& place, int axis, const std::byte* chunk, std::byte* row) const;

  hdf5::SetLayout layout_;
  Fetch fetch_;
  std::string origin_;
  std::size_t cache_bytes_;
  Place grid_{};           // chunks along each axis
  Place chunk_strides_{};  // bytes
  Place row_strides_{};    // bytes; of axes from 1
  mutable std::mutex mutex_;
  // The last one used is the first; by its number in the grid.
  mutable std::list<std::pair<std::int64_t, Chunk>> recent_;
  mutable std::unordered_map<std::int64_t, decltype(recent_)::iterator> kept_;
};

/// Reverses the bytes of each element.
void swap_bytes(std::span<std::byte> elements, std::size_t element_bytes);

}  // namespace troupe

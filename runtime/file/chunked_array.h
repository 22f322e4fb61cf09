#pragma once
// An array whose elements a file or a folder has in chunks, read row by row.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe {

struct ChunkedLayout {
  Shape shape;
  DType dtype = DType::f32;
  bool swapped = false;                  ///< the elements have the other byte order
  std::vector<std::int64_t> chunk = {};  ///< sizes of a chunk's axes

  std::size_t chunk_bytes() const;
};

/// Several chunks are in memory at a time.
inline constexpr std::uint64_t most_chunk_bytes = std::uint64_t{1} << 28;

/// These sizes for ChunkedLayout::chunk; nothing if one is 0, or a chunk is larger than
/// most_chunk_bytes.
std::optional<std::vector<std::int64_t>> chunk_sizes(std::span<const std::uint64_t> sizes,
                                                     DType dtype);

/// How an array of a file comes into memory.
enum class ArrayAccess : std::uint8_t { mapped, by_row, whole };

/// Immutable: any thread may read. Chunks are kept while there is room, so an array that fits there
/// is read once. Chunks are read by the threads that need them, side by side.
class ChunkedArray {
 public:
  using Place = std::array<std::int64_t, Shape::max_rank>;
  /// Reads and unpacks the chunk whose first element is there: as many elements as a chunk has,
  /// also at the array's end. Called by any thread.
  using Read = std::function<std::vector<std::byte>(const Place& first)>;

  static constexpr std::size_t usual_cache_bytes = std::size_t{1} << 28;

  /// The array has elements, and a chunk as many axes as the array.
  ChunkedArray(ChunkedLayout layout, Read read, std::size_t cache_bytes = usual_cache_bytes);

  const Shape& shape() const { return layout_.shape; }
  DType dtype() const { return layout_.dtype; }
  std::size_t row_bytes() const;
  /// Writes an entry of the outermost axis to `out`, which has row_bytes(), in this host's byte
  /// order. Throws what reading a chunk throws.
  void read_row(std::int64_t row, std::span<std::byte> out) const;
  /// The most memory that kept chunks take.
  std::size_t most_cache_bytes() const;
  /// The most that a thread in read_row() takes besides: for a chunk, packed and unpacked.
  std::size_t most_reader_bytes() const { return 2 * layout_.chunk_bytes(); }
  /// All rows. Throws also as memory_for().
  Tensor read_all(const std::string& origin) const;

 private:
  using Chunk = std::shared_ptr<const std::vector<std::byte>>;

  std::size_t entry_bytes() const;
  Chunk chunk_at(const Place& place) const;
  void copy(const Place& place, int axis, const std::byte* chunk, std::byte* row) const;

  ChunkedLayout layout_;
  Read read_;
  std::size_t cache_bytes_;
  Place grid_{};           // chunks along each axis
  Place chunk_strides_{};  // bytes
  Place row_strides_{};    // bytes; of axes from 1
  mutable std::mutex mutex_;
  // The last one used is the first; by its number in the grid.
  mutable std::list<std::pair<std::int64_t, Chunk>> recent_;
  mutable std::unordered_map<std::int64_t, decltype(recent_)::iterator> kept_;
};

/// A tensor for an array of a file. Throws Error{bad_file}, which begins with `origin`, if
/// memory_limit() is smaller.
Tensor memory_for(const Shape& shape, DType dtype, const std::string& origin);

/// Reverses the bytes of each element.
void swap_bytes(std::span<std::byte> elements, std::size_t element_bytes);

}  // namespace troupe

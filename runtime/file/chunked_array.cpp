#include "runtime/file/chunked_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/error.h"
#include "runtime/world/memory_limit.h"

namespace troupe {
namespace {

/// About what a kept chunk takes beside its elements; without it, many small ones would take far
/// more than the cache may.
constexpr std::size_t cache_entry_bytes = 256;

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

}  // namespace

std::optional<std::vector<std::int64_t>> chunk_sizes(std::span<const std::uint64_t> sizes,
                                                     DType dtype) {
  std::uint64_t left = most_chunk_bytes / size_of(dtype);  // divided: nothing overflows
  for (const std::uint64_t size : sizes) {
    if (size == 0 || size > left) return std::nullopt;
    left /= size;
  }
  return std::vector<std::int64_t>(sizes.begin(), sizes.end());
}

std::size_t ChunkedLayout::chunk_bytes() const {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t axis : chunk) bytes *= static_cast<std::size_t>(axis);
  return bytes;
}

ChunkedArray::ChunkedArray(ChunkedLayout layout, Read read, std::size_t cache_bytes)
    : layout_(std::move(layout)), read_(std::move(read)), cache_bytes_(cache_bytes) {
  auto chunk_stride = static_cast<std::int64_t>(size_of(layout_.dtype));
  std::int64_t row_stride = chunk_stride;
  for (int axis = layout_.shape.rank() - 1; axis >= 0; --axis) {
    const std::int64_t size = layout_.chunk[at(axis)];
    grid_[at(axis)] = (layout_.shape[axis] - 1) / size + 1;
    chunk_strides_[at(axis)] = chunk_stride;
    row_strides_[at(axis)] = row_stride;
    chunk_stride *= size;
    row_stride *= layout_.shape[axis];
  }
}

std::size_t ChunkedArray::row_bytes() const { return static_cast<std::size_t>(row_strides_[0]); }

std::size_t ChunkedArray::entry_bytes() const { return layout_.chunk_bytes() + cache_entry_bytes; }

std::size_t ChunkedArray::most_cache_bytes() const {
  std::size_t chunks = 1;
  for (int axis = 0; axis < shape().rank(); ++axis)
    chunks *= static_cast<std::size_t>(grid_[at(axis)]);
  const std::size_t room = std::max<std::size_t>(1, cache_bytes_ / entry_bytes());
  return std::min(chunks, room) * entry_bytes();
}

ChunkedArray::Chunk ChunkedArray::chunk_at(const Place& place) const {
  std::int64_t number = 0;
  Place first{};
  for (int axis = 0; axis < shape().rank(); ++axis) {
    number = number * grid_[at(axis)] + place[at(axis)];
    first[at(axis)] = place[at(axis)] * layout_.chunk[at(axis)];
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto kept = kept_.find(number); kept != kept_.end()) {
      recent_.splice(recent_.begin(), recent_, kept->second);
      return kept->second->second;
    }
  }
  auto chunk = std::make_shared<const std::vector<std::byte>>(read_(first));
  const std::lock_guard lock(mutex_);
  if (kept_.contains(number)) return chunk;  // another thread was faster
  recent_.emplace_front(number, chunk);
  kept_[number] = recent_.begin();
  while (recent_.size() > 1 && recent_.size() * entry_bytes() > cache_bytes_) {
    kept_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return chunk;
}

// Copies what the chunk at `place` has of the row, from this axis on.
void ChunkedArray::copy(const Place& place, int axis, const std::byte* chunk,
                        std::byte* row) const {
  if (axis == shape().rank()) {
    std::memcpy(row, chunk, size_of(dtype()));
    return;
  }
  const std::int64_t size = layout_.chunk[at(axis)];
  const std::int64_t first = place[at(axis)] * size;
  const std::int64_t count = std::min(size, shape()[axis] - first);
  row += first * row_strides_[at(axis)];
  if (axis + 1 == shape().rank()) {
    std::memcpy(row, chunk, static_cast<std::size_t>(count) * size_of(dtype()));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    copy(place, axis + 1, chunk + i * chunk_strides_[at(axis)], row + i * row_strides_[at(axis)]);
}

void ChunkedArray::read_row(std::int64_t row, std::span<std::byte> out) const {
  Place place{};
  place[0] = row / layout_.chunk[0];
  const std::int64_t within = row % layout_.chunk[0] * chunk_strides_[0];
  while (true) {
    const Chunk chunk = chunk_at(place);
    copy(place, 1, chunk->data() + within, out.data());
    int axis = shape().rank() - 1;  // the next chunk of the row
    while (axis > 0 && ++place[at(axis)] == grid_[at(axis)]) place[at(axis--)] = 0;
    if (axis <= 0) break;
  }
  if (layout_.swapped) swap_bytes(out, size_of(dtype()));
}

Tensor ChunkedArray::read_all(const std::string& origin) const {
  Tensor all = memory_for(shape(), dtype(), origin);
  const std::size_t row = row_bytes();
  for (std::int64_t i = 0; i < all.dim(0); ++i)
    read_row(i, {all.raw() + static_cast<std::size_t>(i) * row, row});
  return all;
}

Tensor memory_for(const Shape& shape, DType dtype, const std::string& origin) {
  const auto elements = static_cast<std::uint64_t>(shape.element_count());
  const MemoryLimit limit = memory_limit();
  if (elements > limit.bytes / size_of(dtype))
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: it has {} elements of {}, but {} has a memory of {} bytes", origin,
                            elements, name_of(dtype), limit.holder, limit.bytes),
                "store samples in chunks, which are read one by one");
  return Tensor::empty(shape, dtype, Device::cpu());
}

void swap_bytes(std::span<std::byte> elements, std::size_t element_bytes) {
  for (std::size_t i = 0; i + element_bytes <= elements.size(); i += element_bytes)
    std::ranges::reverse(elements.subspan(i, element_bytes));
}

}  // namespace troupe

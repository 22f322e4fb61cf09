#include "runtime/file/hdf5_filters.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <new>

#include "runtime/file/gzip.h"
#include "runtime/file/hdf5_library.h"

namespace troupe::hdf5 {
namespace {

constexpr std::size_t checksum_bytes = 4;

/// Fletcher's checksum of 16-bit words, big-endian as libhdf5 has them (J. G. Fletcher, "An
/// Arithmetic Checksum for Serial Transmissions", IEEE Transactions on Communications 1982).
std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t words_between_folds = 360;  // so that 32 bits do not overflow
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  std::uint32_t first = 0, second = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t end = std::min(bytes.size(), at + 2 * words_between_folds);
    for (; at < end; at += 2) {
      const auto low = at + 1 < bytes.size() ? std::to_integer<std::uint32_t>(bytes[at + 1]) : 0U;
      first += std::to_integer<std::uint32_t>(bytes[at]) << 8 | low;
      second += first;
    }
    first = fold(first);
    second = fold(second);
  }
  return fold(second) << 16 | fold(first);
}

void check_fletcher32(std::vector<std::byte>& bytes, const std::string& origin) {
  if (bytes.size() < checksum_bytes) fail(origin, "a chunk ends within its checksum", damaged);
  std::uint32_t stated = 0;
  for (std::size_t i = 0; i < checksum_bytes; ++i)
    stated |= std::to_integer<std::uint32_t>(bytes[bytes.size() - checksum_bytes + i]) << 8 * i;
  bytes.resize(bytes.size() - checksum_bytes);
  if (fletcher32(bytes) != stated) fail(origin, "a chunk has a wrong checksum", damaged);
}

std::vector<std::byte> inflated(const std::vector<std::byte>& bytes, std::size_t size,
                                const std::string& origin) {
  if (size / gzip_largest_ratio > bytes.size())  // before memory is allocated
    fail(origin, fmt::format("{} bytes of a chunk do not unpack to {}", bytes.size(), size),
         damaged);
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) throw std::bad_alloc();
  std::vector<std::byte> out(size);
  // Without a place for the actual size, any other size is an error.
  if (libdeflate_zlib_decompress(decompressor.get(), bytes.data(), bytes.size(), out.data(), size,
                                 nullptr) != LIBDEFLATE_SUCCESS)
    fail(origin, fmt::format("a chunk does not unpack to its {} bytes", size), damaged);
  return out;
}

std::vector<std::byte> unshuffled(const std::vector<std::byte>& bytes, std::size_t element_bytes) {
  std::vector<std::byte> out(bytes.size());
  const std::size_t elements = bytes.size() / element_bytes;
  for (std::size_t byte = 0; byte < element_bytes; ++byte)
    for (std::size_t i = 0; i < elements; ++i)
      out[i * element_bytes + byte] = bytes[byte * elements + i];
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(elements * element_bytes), bytes.end(),
            out.begin() + static_cast<std::ptrdiff_t>(elements * element_bytes));
  return out;
}

}  // namespace

std::size_t most_stored_bytes(std::size_t chunk_bytes) {
  return chunk_bytes + chunk_bytes / 1000 + 64;  // zlib's compressBound, and checksums
}

std::vector<std::byte> unfiltered(std::vector<std::byte> stored, std::span<const Filter> filters,
                                  std::uint32_t skipped, std::size_t chunk_bytes,
                                  std::size_t element_bytes, const std::string& origin) {
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((skipped >> i & 1) != 0) continue;
    if (filters[i] == Filter::fletcher32) {
      check_fletcher32(stored, origin);
    } else if (filters[i] == Filter::shuffle) {
      stored = unshuffled(stored, element_bytes);
    } else {
      std::size_t size = chunk_bytes;  // and the checksums that were appended before packing
      for (std::size_t j = 0; j < i; ++j)
        if (filters[j] == Filter::fletcher32 && (skipped >> j & 1) == 0) size += checksum_bytes;
      stored = inflated(stored, size, origin);
    }
  }
  if (stored.size() != chunk_bytes)
    fail(origin, fmt::format("a chunk has {} bytes instead of {}", stored.size(), chunk_bytes),
         damaged);
  return stored;
}

}  // namespace troupe::hdf5

#include "runtime/file/zarr_codecs.h"

#include <blosc.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <zstd.h>

#include <array>
#include <memory>
#include <new>

#include "runtime/error.h"

namespace troupe::zarr {
namespace {

constexpr std::size_t checksum_bytes = 4;

[[noreturn]] void fail_to_unpack(const char* codec, std::size_t most, const std::string& origin) {
  fail(origin, fmt::format("its {} data do not unpack to at most {} bytes", codec, most));
}

std::vector<std::byte> inflated(std::span<const std::byte> bytes, Codec codec, std::size_t most,
                                const std::string& origin) {
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) throw std::bad_alloc();
  std::vector<std::byte> out(most);
  std::size_t read = 0, size = 0;
  const bool gzip = codec == Codec::gzip;
  const auto inflate = gzip ? libdeflate_gzip_decompress_ex : libdeflate_zlib_decompress_ex;
  if (inflate(decompressor.get(), bytes.data(), bytes.size(), out.data(), most, &read, &size) !=
          LIBDEFLATE_SUCCESS ||
      read != bytes.size())
    fail_to_unpack(gzip ? "gzip" : "zlib", most, origin);
  out.resize(size);
  return out;
}

std::vector<std::byte> unpacked_zstd(std::span<const std::byte> bytes, std::size_t most,
                                     const std::string& origin) {
  std::vector<std::byte> out(most);
  const std::size_t size = ZSTD_decompress(out.data(), most, bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0) fail_to_unpack("zstd", most, origin);
  out.resize(size);
  return out;
}

std::vector<std::byte> unpacked_blosc(std::span<const std::byte> bytes, std::size_t most,
                                      const std::string& origin) {
  std::size_t size = 0;  // as the header states it
  if (blosc_cbuffer_validate(bytes.data(), bytes.size(), &size) != 0 || size > most)
    fail_to_unpack("blosc", most, origin);
  std::vector<std::byte> out(size);
  // Neither global state nor threads of the library, unlike blosc_decompress.
  const int unpacked = blosc_decompress_ctx(bytes.data(), out.data(), size, 1);
  if (unpacked < 0 || static_cast<std::size_t>(unpacked) != size)
    fail_to_unpack("blosc", most, origin);
  return out;
}

/// RFC 3720, appendix B.4: the polynomial of Castagnoli, reflected.
std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        made[i] = made[i] >> 1 ^ ((made[i] & 1) != 0 ? 0x82f63b78U : 0U);
    }
    return made;
  }();
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

void check_crc32c(std::vector<std::byte>& bytes, const std::string& origin) {
  if (bytes.size() < checksum_bytes) fail(origin, "it ends within its checksum");
  std::uint32_t stated = 0;
  for (std::size_t i = 0; i < checksum_bytes; ++i)
    stated |= std::to_integer<std::uint32_t>(bytes[bytes.size() - checksum_bytes + i]) << 8 * i;
  bytes.resize(bytes.size() - checksum_bytes);
  if (crc32c(bytes) != stated) fail(origin, "it has a wrong checksum");
}

}  // namespace

std::size_t most_stored_bytes(std::size_t chunk_bytes, std::size_t codecs) {
  // More than any of the formats adds to bytes that it cannot compress.
  return chunk_bytes + codecs * (chunk_bytes / 100 + 1024);
}

std::vector<std::byte> decoded(std::vector<std::byte> stored, std::span<const Codec> codecs,
                               std::size_t chunk_bytes, const std::string& origin) {
  for (std::size_t i = codecs.size(); i-- > 0;) {
    const std::size_t most = i == 0 ? chunk_bytes : most_stored_bytes(chunk_bytes, i);
    switch (codecs[i]) {
      case Codec::zlib:
      case Codec::gzip:
        stored = inflated(stored, codecs[i], most, origin);
        break;
      case Codec::zstd:
        stored = unpacked_zstd(stored, most, origin);
        break;
      case Codec::blosc:
        stored = unpacked_blosc(stored, most, origin);
        break;
      case Codec::crc32c:
        check_crc32c(stored, origin);
        break;
    }
  }
  if (stored.size() != chunk_bytes)
    fail(origin, fmt::format("it has {} bytes instead of {}", stored.size(), chunk_bytes));
  return stored;
}

std::string title(const std::string& origin) {
  return fmt::format("reading zarr array '{}'", origin);
}

void fail(const std::string& origin, const std::string& what, const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", title(origin), what), remedy);
}

}  // namespace troupe::zarr

#pragma once
// Reads gzip (RFC 1952) piece by piece, so that the caller decides how much memory it takes.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// Deflate expands by at most this factor (zlib's technical notes: 1032 to 1). A header that states
/// more is refused before memory is allocated.
inline constexpr std::size_t gzip_largest_ratio = 1032;

/// Decompresses gzip data of one or several members. Not thread-safe.
/// Every error is an Error (bad_file) that names `origin`.
class GzipReader {
 public:
  /// `bytes` must stay alive; errors name it as `origin`, usually a path.
  GzipReader(std::span<const std::byte> bytes, std::string origin);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Fills all of `out`; throws if the data end earlier or are damaged.
  void read(std::span<std::byte> out);
  /// Fills a part of `out`, which is not empty, and returns its size; 0 only at the end of the
  /// data, where checksums have been verified.
  std::size_t read_some(std::span<std::byte> out);
  /// Throws unless the data end here, checksums included.
  void expect_end();

  static bool is_gzip(std::span<const std::byte> bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decompresses a whole gzip file of one member in one call of libdeflate: 26 MB to 47 MB in 90 ms
/// where zlib takes 160. Returns false, with `out` undefined, unless the data are such a file of
/// exactly out.size() bytes; a GzipReader then reports the error.
bool unpack_gzip(std::span<const std::byte> bytes, std::span<std::byte> out);

}  // namespace troupe

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/error.h"
#include "runtime/file/file.h"

namespace troupe {

/// Writes a zip archive of stored members, one after another, whose bytes begin at multiples of
/// `alignment`. Sizes and places above 4 GiB are written with 64 bits, as is the end of each
/// archive (runtime/file/zip.h has the source of the layout). The bytes of a file depend only on
/// its members. Each function returns an error of the file system.
class ZipWriter {
 public:
  static constexpr std::uint64_t alignment = 64;

  /// `file` must stay alive and have no other writer. The archive begins at `begin`, which readers
  /// take for a gap of the file.
  explicit ZipWriter(OutputFile& file, std::uint64_t begin = 0) : file_(file), at_(begin) {}

  /// Names must be unique, of less than 64 KiB, and relative paths.
  Status add(std::string_view name, std::span<const std::byte> bytes);
  /// Writes the directory. The last call.
  Status finish();

 private:
  Status write(std::span<const std::byte> bytes);

  OutputFile& file_;
  std::uint64_t at_;
  std::uint64_t members_ = 0;
  std::string directory_;
};

}  // namespace troupe

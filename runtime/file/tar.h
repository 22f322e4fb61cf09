#pragma once
// Reads tar archives (ustar, GNU, pax), plain or gzip, one member after another.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A file in an archive.
struct TarMember {
  std::string name;  ///< with its folders, as the archive states it: "cifar-100-python/train"
  std::uint64_t bytes = 0;
};

/// Reads an archive from its beginning to its end. Not thread-safe.
///
/// It unpacks piece by piece and holds one header; `content` holds one member. Every error is an
/// Error (bad_file) that names `origin`: damaged or truncated gzip data, wrong checksums of
/// headers, sizes that are no numbers, members larger than the archive or the caller permits.
class TarReader {
 public:
  /// `bytes` must stay alive. No member may be larger than `most_bytes`.
  TarReader(std::span<const std::byte> bytes, std::string origin, std::uint64_t most_bytes);
  ~TarReader();
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  /// The next file; nothing at the end, where the checksum of gzip is verified. Folders, links and
  /// extended headers are skipped. A name that is in an extended header (of more than 100
  /// characters, or not ASCII) is not read: the member has the short form of the name.
  std::optional<TarMember> next();

  /// The bytes of the member that `next` returned last; once for each.
  std::vector<std::byte> content();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe

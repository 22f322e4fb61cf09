#pragma once
// Zip archives for reading: PyTorch's .pt and .pt2 and NumPy's .npz. Layout: PKWARE, "APPNOTE.TXT -
// .ZIP File Format Specification", 4.3; members are stored or deflated, sizes may have 64 bits.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"

namespace troupe {

/// What the directory of an archive states about a member.
struct ZipMember {
  std::string name;                ///< as stored: "net/data/0"; folders end in '/'
  std::uint64_t size = 0;          ///< in bytes, unpacked
  std::uint64_t packed_size = 0;   ///< in the archive
  std::uint64_t begin = 0;         ///< of its bytes in the archive
  std::uint32_t crc = 0;           ///< CRC-32 of the unpacked bytes
  std::uint16_t method = 0;        ///< 0 stored, 8 deflated; others cannot be read
  std::uint64_t header_begin = 0;  ///< of its own header, which precedes its bytes

  bool is_stored() const { return method == 0; }
};

/// The bytes of a member: a view of the archive, or unpacked into memory of their own.
struct ZipContent {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< keeps them; null if the archive's bytes have no owner

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// An open archive. A cheap, immutable handle; usable from any thread.
///
/// Opening reads the directory and the header of each member. Sizes and checksums are those of the
/// directory: streamed archives, as PyTorch writes them, have zeros in the members' headers.
class ZipArchive {
 public:
  /// Maps the file. Throws Error: io if it cannot be opened; bad_file if it is no zip archive, is
  /// truncated or spans several disks; if members overlap, share a name, are encrypted, have
  /// headers that contradict the directory, or names that lead out of a folder ("../x", "/x",
  /// "a\b"). Memory: less than three times the size of the directory.
  static ZipArchive open(const std::filesystem::path& path);
  /// The same of bytes that `owner` keeps; with a null owner the caller does. Errors name them as
  /// `origin`.
  static ZipArchive parse(std::span<const std::byte> bytes, const std::string& origin,
                          std::shared_ptr<const void> owner = nullptr);

  const std::string& origin() const;
  const std::vector<ZipMember>& members() const;  ///< in the order of the directory
  /// Null if there is none of that name.
  const ZipMember* find(std::string_view name) const;
  /// Throws Error{bad_file} that names members with similar names.
  const ZipMember& at(std::string_view name) const;

  /// A stored member as a view of the archive, not compared with its checksum. The caller keeps
  /// owner(). Throws Error{bad_file} for a packed member.
  std::span<const std::byte> stored(const ZipMember& member) const;
  const std::shared_ptr<const void>& owner() const;

  /// The content of a member, verified by its checksum: a view if it is stored, else unpacked.
  /// Throws Error{bad_file} for damage, for more than `most_bytes`, and for a size that the packed
  /// bytes cannot give; memory is allocated after these comparisons.
  ZipContent content(const ZipMember& member, std::uint64_t most_bytes) const;
  /// Its first bytes, `most_bytes` or all, not compared with its checksum: no more is unpacked.
  /// Throws Error{bad_file} if they are damaged.
  std::vector<std::byte> beginning(const ZipMember& member, std::size_t most_bytes) const;
  /// Throws Error{bad_file} unless the packed bytes can give member.size bytes: for callers that
  /// allocate the memory of read().
  void check_size(const ZipMember& member) const;
  /// The same into memory of member.size bytes.
  void read(const ZipMember& member, std::span<std::byte> out) const;
  /// Whether it has checksums. One whose checksums are all 0 has none
  /// (torch.serialization.set_crc32_options(False)).
  bool has_checksums() const;
  /// Throws Error{bad_file} unless `bytes` have the checksum of the member, or there are none.
  void verify(const ZipMember& member, std::span<const std::byte> bytes) const;

  /// An error of a member: "reading net/data/0 in 'net.pt': what".
  [[noreturn]] void fail(const ZipMember& member, const std::string& what) const;

 private:
  /// Throws Error{bad_file} unless the member is stored or deflated.
  void check_method(const ZipMember& member) const;

  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace troupe

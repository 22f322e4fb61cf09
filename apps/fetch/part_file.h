#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/fd.h"

namespace troupe {

/// The MD5 of a file, as 32 hexadecimal digits. Throws Error{io}.
std::string file_md5(const std::filesystem::path& path);

/// A file that a download fills: TARGET.part, which remains if the download ends early and is
/// resumed by the next one. Locked, so that two processes do not write into it at the same time. An
/// empty one is removed at the end.
class PartFile {
 public:
  /// Opens or creates the file. Throws Error{io} if another process holds it, and if it cannot be
  /// opened. On file systems without locks it is not locked.
  explicit PartFile(std::filesystem::path target);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  void append(std::span<const std::byte> bytes);
  void clear();
  /// Syncs the file and renames it to the target, which it replaces.
  void publish();

 private:
  std::filesystem::path target_, path_;
  Fd file_;
  std::uint64_t size_ = 0;
};

}  // namespace troupe

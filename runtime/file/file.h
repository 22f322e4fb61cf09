#pragma once
// Files as bytes: mapped for reading, and written so that no name refers to a partial file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace troupe {

/// Reads parts of a file into the caller's memory. Move-only; usable from any thread.
class InputFile {
 public:
  /// Throws Error (io) if `path` is missing, unreadable or not an ordinary file.
  static InputFile open(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< when it was opened
  /// Fills `into` from `offset` on. Throws Error (io) for errors of the system and for a file that
  /// has been shortened.
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  friend class MappedFile;
  InputFile(std::filesystem::path path, int descriptor, std::uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A whole file in memory, paged in as it is read. Immutable and usable from any thread.
///
/// The mapping is private: writes through a tensor that views it stay in this process. A program
/// that shortens a mapped file ends its readers (SIGBUS); Troupe replaces files by renaming.
class MappedFile {
 public:
  /// Throws as InputFile::open.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Releases the memory of bytes that are not needed soon; a later access reads them again. Writes
  /// there through a tensor are lost.
  void forget(std::size_t offset, std::size_t bytes) const;

 private:
  MappedFile() = default;
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A system call that a writer is about to make.
struct WriteCall {
  enum class Kind : std::uint8_t { make_folder, create, write, sync, rename };
  Kind kind;
  const std::filesystem::path& path;
  std::size_t bytes = 0;  ///< of a write
};

/// Called before each WriteCall, on the thread that makes it. If it returns an errno other than 0,
/// the call is not made and fails with this errno. Tests simulate full disks and crashes with it.
using WriteHook = std::function<int(const WriteCall&)>;

/// An error of the system as an Error (io): the operation, the path and the remedy.
Error system_error(std::string_view doing, const std::filesystem::path& path, int error_number);

/// A file being written. Move-only; closed, not deleted, by its destructor.
class OutputFile {
 public:
  /// Creates the file, which must not exist. Errors name it as `called` if given: the final name
  /// instead of the temporary one.
  static Result<OutputFile> create(const std::filesystem::path& path, WriteHook hook = {},
                                   std::filesystem::path called = {});
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::filesystem::path& path() const { return path_; }
  /// Writes all of `bytes` at `offset`. Several threads may write different places at once.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns when the bytes are on the disk.
  Status sync();

 private:
  OutputFile(std::filesystem::path path, std::filesystem::path called, WriteHook hook,
             int descriptor)
      : path_(std::move(path)),
        called_(std::move(called)),
        hook_(std::move(hook)),
        descriptor_(descriptor) {}
  std::filesystem::path path_, called_;
  WriteHook hook_;
  int descriptor_ = -1;
};

/// Writes a file completely or not at all: under another name beside its place, synced, then
/// renamed. A failure leaves the previous file, and no temporary one.
Status write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                  const WriteHook& hook = {});
/// The same with a function that writes into the file.
Status write_file(const std::filesystem::path& path,
                  const std::function<Status(OutputFile&)>& produce, const WriteHook& hook = {});

/// A folder that appears under its name completely or not at all. The caller fills staging(), syncs
/// its files and calls publish(). Without publish() the destructor removes the staging folder.
class AtomicFolder {
 public:
  /// Creates the staging folder `.NAME.partial-…` beside `target`, and the folders above it.
  static Result<AtomicFolder> create(const std::filesystem::path& target, WriteHook hook = {});
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& staging() const { return staging_; }
  /// Syncs the folder, renames it and syncs the folder above. An existing folder of that name is
  /// replaced: atomically if the file system can exchange names, else by moving it aside.
  Status publish();

  /// A staging name beside `target` that several processes can derive.
  static std::filesystem::path beside(const std::filesystem::path& target, std::string_view what);

  /// Whether `name` is that of a staging folder, of a writer that crashed or is still at work.
  static bool is_staging_name(std::string_view name);

 private:
  AtomicFolder(std::filesystem::path target, std::filesystem::path staging, WriteHook hook)
      : target_(std::move(target)), staging_(std::move(staging)), hook_(std::move(hook)) {}
  std::filesystem::path target_;
  std::filesystem::path staging_;  ///< empty once there is nothing to remove
  WriteHook hook_;
};

/// The bytes of a text.
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace troupe

#pragma once
// Files as bytes: mapped for reading, and written so that a name never shows half a file.

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

/// A file of which parts are read into the caller's memory. Move-only; any thread.
class InputFile {
 public:
  /// Throws Error (io) where `path` is missing, unreadable or not an ordinary file.
  static InputFile open(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< when it was opened
  /// Fills `into` from `offset` on; throws Error (io) where the system refuses or the file has been
  /// shortened.
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
/// The mapping is private: what is written through a tensor that views it stays in this process.
/// Whoever shortens the file under a mapping kills its readers (SIGBUS); Troupe replaces files by
/// renaming and never shortens one.
class MappedFile {
 public:
  /// Throws as InputFile::open.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Gives back the memory of bytes that were read and are not needed soon; whoever looks again
  /// reads them again. What was written there through a tensor is lost.
  void forget(std::size_t offset, std::size_t bytes) const;

 private:
  MappedFile() = default;
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What a writer is about to ask of the system.
struct WriteCall {
  enum class Kind : std::uint8_t { make_folder, create, write, sync, rename };
  Kind kind;
  const std::filesystem::path& path;
  std::size_t bytes = 0;  ///< of a write
};

/// Called before each WriteCall, from the thread that makes it; an errno other than 0 is taken for
/// the system's answer. So tests fill disks and die at chosen places.
using WriteHook = std::function<int(const WriteCall&)>;

/// The system's refusal as an Error (io): what was done to which path, and what helps against it.
Error system_error(std::string_view doing, const std::filesystem::path& path, int error_number);

/// A file being written. Move-only; closed, not deleted, by its destructor.
class OutputFile {
 public:
  /// Creates the file, which must not exist yet. Errors name it as `called`, when given: what a
  /// file is written for, rather than where it stands in the meantime.
  static Result<OutputFile> create(const std::filesystem::path& path, WriteHook hook = {},
                                   std::filesystem::path called = {});
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::filesystem::path& path() const { return path_; }
  /// Writes all of `bytes` at `offset`. Several threads may write different places at once.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns when the disk has the bytes.
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

/// Writes a file whole or not at all: beside its place under another name, synced, then renamed
/// over it. A failure leaves what was there before and removes its own traces.
Status write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                  const WriteHook& hook = {});
/// The same from a `produce` that writes into the file as it likes.
Status write_file(const std::filesystem::path& path,
                  const std::function<Status(OutputFile&)>& produce, const WriteHook& hook = {});

/// A folder that appears under its name whole or not at all. Fill staging(), sync its files,
/// publish(). Without publish() the destructor removes it.
class AtomicFolder {
 public:
  /// Makes the staging folder `.NAME.partial-…` beside `target`, and the folders above it.
  static Result<AtomicFolder> create(const std::filesystem::path& target, WriteHook hook = {});
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& staging() const { return staging_; }
  /// Syncs the folder, gives it its name and syncs the folder above. A folder of that name is
  /// replaced: in one step where the file system can swap names, by moving it aside elsewhere.
  Status publish();

  /// A place beside `target` for what is to move into it: a staging name that several processes
  /// know.
  static std::filesystem::path beside(const std::filesystem::path& target, std::string_view what);

  /// Whether `name` is that of a staging folder, left by a writer that died or still at work.
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

#include "runtime/file/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

namespace troupe {
namespace {

using Kind = WriteCall::Kind;
constexpr std::string_view partial_mark = ".partial-";

const char* remedy_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free space there, or choose another folder";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of the folders above it, or choose another";
    case EROFS:
      return "this file system is read-only: choose another folder";
    case ENOENT:
      return "check the spelling of the path, and that its folder exists";
    case ENOTDIR:
    case EEXIST:
      return "a file or folder of that name is in the way: move it, or choose another name";
    case EFBIG:
      return "the file size limit is too low: raise it (ulimit -f unlimited)";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise the limit (ulimit -n)";
    case EIO:
      return "the disk failed: check the system's log";
    default:
      return "";
  }
}

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

int ask(const WriteHook& hook, Kind kind, const std::filesystem::path& path,
        std::size_t bytes = 0) {
  return hook ? hook({kind, path, bytes}) : 0;
}

/// A name beside `target` that no other writer uses, on this host or another: it is random.
std::filesystem::path staging_path(const std::filesystem::path& target) {
  std::random_device random;
  return AtomicFolder::beside(target, fmt::format("{:08x}{:08x}", random(), random()));
}

Status sync_folder(const std::filesystem::path& path, const WriteHook& hook) {
  const auto failed = [&](int number) { return system_error("syncing folder", path, number); };
  if (const int refused = ask(hook, Kind::sync, path)) return failed(refused);
  const Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.value < 0) return failed(errno);
  // EINVAL: a file system that cannot sync folders; its renames are as durable as it makes them.
  if (::fsync(folder.value) != 0 && errno != EINVAL) return failed(errno);
  return success();
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// The first link in a path that leads to nothing; empty if there is none.
std::filesystem::path broken_link(const std::filesystem::path& path) {
  std::filesystem::path link;
  std::error_code ignored;
  for (const std::filesystem::path& part : path) {
    link /= part;
    if (std::filesystem::is_symlink(link, ignored) && !std::filesystem::exists(link, ignored))
      return link;
  }
  return {};
}

Error opening_error(const std::filesystem::path& path, int error_number) {
  Error error = system_error("opening", path, error_number);
  const auto link = error_number == ENOENT ? broken_link(path) : std::filesystem::path();
  if (link.empty()) return error;
  return {error.code(), error.message(),
          fmt::format("fetch the file that the link '{}' points to", link.string())};
}

}  // namespace

Error system_error(std::string_view doing, const std::filesystem::path& path, int error_number) {
  return Error(ErrorCode::io,
               fmt::format("{} '{}': {}", doing, path.string(), std::strerror(error_number)),
               remedy_for(error_number));
}

InputFile InputFile::open(const std::filesystem::path& path) {
  // Non-blocking, so that a named pipe is refused below instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw opening_error(path, errno);
  InputFile file(path, descriptor, 0);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw system_error("opening", path, errno);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::io,
                fmt::format("opening '{}': it is {}, not a file", path.string(),
                            S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe"),
                "give the path of an ordinary file");
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("reading", path_, errno);
    if (got == 0)
      throw Error(
          ErrorCode::io,
          fmt::format("reading '{}': it ends at byte {}, but had {} bytes when it was opened",
                      path_.string(), offset, size_),
          "replace a file by renaming another one over it, not by writing into it");
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->path_ = path;
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return result;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                      file.descriptor_, 0);
  if (data == MAP_FAILED) throw system_error("mapping", path, errno);
  result->data_ = static_cast<std::byte*>(data);
  result->size_ = size;
  return result;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

// Whole pages at both ends too: they are as quickly there again.
void MappedFile::forget(std::size_t offset, std::size_t bytes) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes == 0 || offset >= size_) return;
  const std::size_t begin = offset / page * page;
  ::madvise(data_ + begin, std::min(offset + bytes, size_) - begin, MADV_DONTNEED);
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path, WriteHook hook,
                                      std::filesystem::path called) {
  if (called.empty()) called = path;
  if (const int refused = ask(hook, Kind::create, path))
    return system_error("creating", called, refused);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return system_error("creating", called, errno);
  return OutputFile(path, std::move(called), std::move(hook), descriptor);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      called_(std::move(other.called_)),
      hook_(std::move(other.hook_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(called_, other.called_);
  std::swap(hook_, other.hook_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (const int refused = ask(hook_, Kind::write, path_, bytes.size()))
    return system_error("writing", called_, refused);
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return system_error("writing", called_, written < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return success();
}

Status OutputFile::sync() {
  if (const int refused = ask(hook_, Kind::sync, path_))
    return system_error("syncing", called_, refused);
  if (::fsync(descriptor_) != 0) return system_error("syncing", called_, errno);
  return success();
}

Status write_file(const std::filesystem::path& path,
                  const std::function<Status(OutputFile&)>& produce, const WriteHook& hook) {
  const std::filesystem::path staging = staging_path(path);
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    return Error(ErrorCode::io, fmt::format("{} exists and is not a regular file", path.string()),
                 "choose another name");
  Result<OutputFile> file = OutputFile::create(staging, hook, path);
  if (!file) return file.error();
  struct Leftover {
    std::filesystem::path path;
    ~Leftover() {
      if (!path.empty()) ::unlink(path.c_str());
    }
  } leftover{staging};
  if (Status status = produce(file.value()); !status) return status;
  if (Status status = file.value().sync(); !status) return status;
  if (const int refused = ask(hook, Kind::rename, path))
    return system_error("renaming to", path, refused);
  if (::rename(staging.c_str(), path.c_str()) != 0) return system_error("renaming to", path, errno);
  leftover.path.clear();
  return sync_folder(folder_of(path), hook);
}

Status write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                  const WriteHook& hook) {
  return write_file(
      path, [&](OutputFile& file) { return file.write_at(0, bytes); }, hook);
}

Result<AtomicFolder> AtomicFolder::create(const std::filesystem::path& target, WriteHook hook) {
  const std::filesystem::path staging = staging_path(target);
  if (const int refused = ask(hook, Kind::make_folder, staging))
    return system_error("making folder", staging, refused);
  std::error_code failed;
  std::filesystem::create_directories(folder_of(target), failed);
  if (failed) return system_error("making folder", folder_of(target), failed.value());
  if (::mkdir(staging.c_str(), 0777) != 0) return system_error("making folder", staging, errno);
  return AtomicFolder(target, staging, std::move(hook));
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : target_(std::move(other.target_)),
      staging_(std::exchange(other.staging_, {})),
      hook_(std::move(other.hook_)) {}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!staging_.empty()) std::filesystem::remove_all(staging_, ignored);
}

Status AtomicFolder::publish() {
  if (Status status = sync_folder(staging_, hook_); !status) return status;
  if (const int refused = ask(hook_, Kind::rename, target_))
    return system_error("renaming to", target_, refused);
  const auto failed = [&] { return system_error("renaming to", target_, errno); };
  if (::rename(staging_.c_str(), target_.c_str()) == 0) {
    staging_.clear();
  } else if (errno != ENOTEMPTY && errno != EEXIST) {
    return failed();
  } else if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) !=
             0) {
    const std::filesystem::path aside = staging_path(target_);
    if (::rename(target_.c_str(), aside.c_str()) != 0) return failed();
    if (::rename(staging_.c_str(), target_.c_str()) != 0) return failed();
    staging_ = aside;
  }  // from here on the staging name holds the folder that was replaced
  return sync_folder(folder_of(target_), hook_);
}

std::filesystem::path AtomicFolder::beside(const std::filesystem::path& target,
                                           std::string_view what) {
  return target.parent_path() /
         fmt::format(".{}{}{}", target.filename().string(), partial_mark, what);
}

bool AtomicFolder::is_staging_name(std::string_view name) {
  return name.starts_with('.') && name.find(partial_mark) != std::string_view::npos;
}

}  // namespace troupe

#include "apps/fetch/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/file.h"

namespace troupe {
namespace {

Fd open_part(const std::filesystem::path& path) {
  // A symbolic link or a pipe of this name is somebody else's.
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  if (!file && errno == ELOOP)
    throw Error(ErrorCode::io, fmt::format("{} is a symbolic link", path.string()), "remove it");
  if (!file) throw system_error("opening", path, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(ErrorCode::io, fmt::format("another process is writing {}", path.string()),
                "wait until it has ended");
  return file;
}

struct stat status_of(const Fd& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error("opening", path, errno);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::io, fmt::format("{} is not an ordinary file", path.string()),
                "remove it");
  return status;
}

/// Whether the file still has this name: the process that held the lock may have renamed it.
bool is_at(const struct stat& file, const std::filesystem::path& path) {
  struct stat named {};
  return ::lstat(path.c_str(), &named) == 0 && named.st_ino == file.st_ino &&
         named.st_dev == file.st_dev;
}

}  // namespace

std::string file_md5(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const auto check = [](int done) {
    if (done != 1)
      throw Error(ErrorCode::unsupported, "OpenSSL does not compute MD5",
                  "use a provider of OpenSSL that has MD5");
  };
  check(context ? EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) : 0);
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::uint64_t done = 0; done < file.size();) {
    const auto size = std::min<std::uint64_t>(block.size(), file.size() - done);
    const auto part = std::span(block).first(static_cast<std::size_t>(size));
    file.read_at(done, part);
    check(EVP_DigestUpdate(context.get(), part.data(), part.size()));
    done += size;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  check(EVP_DigestFinal_ex(context.get(), bytes.data(), &length));
  std::string text;
  for (const unsigned char byte : std::span(bytes).first(length))
    text += fmt::format("{:02x}", byte);
  return text;
}

PartFile::PartFile(std::filesystem::path target)
    : target_(std::move(target)), path_(target_.string() + ".part") {
  for (;;) {
    file_ = open_part(path_);
    const struct stat status = status_of(file_, path_);
    if (!is_at(status, path_)) continue;
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
}

PartFile::~PartFile() {
  std::error_code ignored;
  if (size_ == 0) std::filesystem::remove(path_, ignored);
}

void PartFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw system_error("writing", path_, errno);
    size_ += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void PartFile::clear() {
  if (::ftruncate(file_.get(), 0) != 0) throw system_error("writing", path_, errno);
  size_ = 0;
}

void PartFile::publish() {
  if (::fsync(file_.get()) != 0) throw system_error("writing", path_, errno);
  std::error_code error;
  std::filesystem::rename(path_, target_, error);
  if (error) throw system_error("writing", target_, error.value());
}

}  // namespace troupe

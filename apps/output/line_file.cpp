#include "apps/output/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/error.h"

namespace troupe {

LineFile::LineFile(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0)
    throw Error(
        ErrorCode::io,
        fmt::format("{}: cannot be opened for writing: {}", path.string(), std::strerror(errno)),
        "check permissions and free space of the output folder");
  cut_unfinished_line();
}

LineFile::~LineFile() { ::close(descriptor_); }

std::int64_t LineFile::size() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : 0;
}

bool LineFile::is_deleted() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && status.st_nlink == 0;
}

bool LineFile::append(std::string_view lines) {
  errno = ENOENT;
  if (is_deleted()) return false;
  const std::int64_t end = size();
  if (write(end, lines)) return true;
  const int cause = errno;
  (void)!::ftruncate(descriptor_, end);
  errno = cause;
  return false;
}

bool LineFile::replace_end(std::int64_t offset, std::string_view text) {
  if (is_deleted()) return false;
  std::string before(static_cast<std::size_t>(std::max<std::int64_t>(size() - offset, 0)), '\0');
  const ssize_t got = ::pread(descriptor_, before.data(), before.size(), offset);
  if (got != static_cast<ssize_t>(before.size())) return false;
  const auto end = offset + static_cast<std::int64_t>(text.size());
  if (write(offset, text)) return end >= size() || ::ftruncate(descriptor_, end) == 0;
  write(offset, before);  // it had its room on the disk, and keeps it
  (void)!::ftruncate(descriptor_, offset + static_cast<std::int64_t>(before.size()));
  return false;
}

void LineFile::cut_unfinished_line() {
  const std::int64_t whole = size();
  std::int64_t end = whole;
  char last = '\n';
  while (end > 0 && ::pread(descriptor_, &last, 1, end - 1) == 1 && last != '\n') --end;
  if (end < whole) (void)!::ftruncate(descriptor_, end);
}

bool LineFile::write(std::int64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    offset += written;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace troupe

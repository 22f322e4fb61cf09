#include "runtime/control/job_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>

#include "runtime/error.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw Error(
      ErrorCode::io,
      fmt::format("cannot {} the job file {}: {}", what, path.string(), std::strerror(errno)),
      "TROUPE_JOB_FILE names another place, which all hosts of the job must share");
}

std::string content(const JobKey& key, const std::string& coordinator) {
  std::string text = fmt::format("key {}\n", key.text());
  if (!coordinator.empty()) text += fmt::format("coordinator {}\n", coordinator);
  return text;
}

/// Creates a folder, and missing ones above it, for the user alone: other users who could write
/// there could replace a key.
void make_private(const fs::path& folder) {
  constexpr mode_t mine = 0700;
  if (folder.empty() || mkdir(folder.c_str(), mine) == 0 || errno != ENOENT) return;
  make_private(folder.parent_path());
  mkdir(folder.c_str(), mine);
}

/// Writes a file of its own beside `path` that only the user can read.
fs::path write_aside(const fs::path& path, const std::string& text) {
  make_private(path.parent_path());  // if that failed, open() fails
  std::random_device random;
  fs::path aside = fmt::format("{}.{}.{:08x}", path.string(), getpid(), random());
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) fail(path, "write");
  const bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(fd) != 0 || !whole) {
    unlink(aside.c_str());
    fail(path, "write");
  }
  return aside;
}

void check_privacy(const fs::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) fail(path, "look at");
  if (!S_ISREG(found.st_mode))
    throw Error(ErrorCode::refused,
                fmt::format("the job file {} is not a regular file", path.string()),
                "remove it, or name another place by TROUPE_JOB_FILE");
  if (found.st_uid == geteuid() && (found.st_mode & 077) == 0) return;
  throw Error(ErrorCode::refused,
              fmt::format("the job file {} is not private: owner {}, mode {:o}", path.string(),
                          found.st_uid, found.st_mode & 0777),
              "remove it, and name a folder of your own by TROUPE_JOB_FILE");
}

/// What is in a regular file; nothing otherwise. Neither a pipe in its place makes it wait, nor is
/// more read of a large file than a job file has.
std::string text_of(const fs::path& path) {
  constexpr std::size_t most = 4096;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return {};
  struct stat found {};
  std::string text(most, '\0');
  const bool is_regular = fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  const ssize_t size = is_regular ? read(fd, text.data(), text.size()) : 0;
  close(fd);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

/// What follows `name` at the beginning of a line.
std::string entry(const std::string& content, const std::string& name) {
  std::istringstream text(content);
  std::string word;
  std::string value;
  while (text >> word >> value)
    if (word == name) return value;
  return {};
}

}  // namespace

JobFile JobFile::of_run(const Environment& environment, const std::string& run) {
  if (const auto path = environment.get("TROUPE_JOB_FILE")) return JobFile(*path);
  const auto home = environment.get("HOME");
  if (!home)
    throw Error(ErrorCode::bad_options,
                "neither TROUPE_JOB_FILE nor HOME is set, so the job file has no path",
                "set TROUPE_JOB_FILE to a path that all hosts of the job share");
  return JobFile(fs::path(*home) / ".troupe" / "jobs" / run);
}

std::optional<JobKey> JobFile::create() const {
  if (access(path_.c_str(), F_OK) == 0) return std::nullopt;
  const JobKey drawn = JobKey::generate();
  const fs::path aside = write_aside(path_, content(drawn, {}));
  const bool is_first = link(aside.c_str(), path_.c_str()) == 0;
  const int why = errno;
  unlink(aside.c_str());
  if (is_first) return drawn;
  errno = why;
  if (why != EEXIST) fail(path_, "create");
  return std::nullopt;
}

JobKey JobFile::key() const {
  if (const auto drawn = create()) return *drawn;
  return present_key();
}

JobKey JobFile::present_key() const {
  check_privacy(path_);
  try {
    return JobKey::parse(entry(text_of(path_), "key"));
  } catch (const Error&) {
    throw Error(ErrorCode::refused, fmt::format("the job file {} holds no job key", path_.string()),
                "remove it, or name another place by TROUPE_JOB_FILE");
  }
}

std::string JobFile::coordinator() const { return entry(text_of(path_), "coordinator"); }

void JobFile::publish(const JobKey& key, const std::string& coordinator) const {
  const fs::path aside = write_aside(path_, content(key, coordinator));
  if (rename(aside.c_str(), path_.c_str()) == 0) return;
  unlink(aside.c_str());
  fail(path_, "write");
}

void JobFile::remove(const std::string& coordinator) const {
  if (this->coordinator() == coordinator) unlink(path_.c_str());
}

void JobFile::remove(const JobKey& key) const {
  if (entry(text_of(path_), "key") == key.text()) unlink(path_.c_str());
}

void JobFile::remove_unclaimed(const JobKey& key) const {
  const std::string text = text_of(path_);
  if (entry(text, "key") == key.text() && entry(text, "coordinator").empty()) unlink(path_.c_str());
}

}  // namespace troupe

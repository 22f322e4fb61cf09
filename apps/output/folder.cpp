#include "apps/output/folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/error.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

const std::string remedy = "choose a writable folder with -o DIR";

Error cannot_create(const fs::path& path, const std::string& reason) {
  return {ErrorCode::io,
          fmt::format("the output folder {} cannot be created: {}", path.string(), reason), remedy};
}

/// Whether this process created it: of two runs that try, mkdir lets one succeed.
bool made(const fs::path& path) {
  std::error_code error;
  const bool is_new = fs::create_directory(path, error);
  if (error) throw cannot_create(path, error.message());
  return is_new;
}

fs::path make_fresh(const fs::path& root, std::chrono::system_clock::time_point now) {
  const std::tm local = fmt::localtime(std::chrono::system_clock::to_time_t(now));
  const fs::path day = root / fmt::format("{:%Y-%m-%d}", local);
  std::error_code error;
  fs::create_directories(day, error);
  if (error) throw cannot_create(day, error.message());
  const std::string second = fmt::format("{:%H-%M-%S}", local);
  fs::path path = day / second;
  for (int number = 2; !made(path); ++number) path = day / fmt::format("{}-{}", second, number);
  return path;
}

/// Whether the folder was created.
bool make_chosen(const fs::path& path) {
  std::error_code error;
  const bool is_new = fs::create_directories(path, error);
  if (error) throw cannot_create(path, error.message());
  if (!fs::is_directory(path)) throw cannot_create(path, "it exists and is not a folder");
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    throw Error(
        ErrorCode::io,
        fmt::format("the output folder {} cannot be written: {}", path.string(), strerror(errno)),
        remedy);
  return is_new;
}

// An advisory lock on the folder, which the system releases when the process ends. At its end it
// removes a new folder that is still empty.
std::shared_ptr<const void> locked(const fs::path& path, bool is_new) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) throw cannot_create(path, strerror(errno));
  // On a file system without locks nothing is checked.
  if (::flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(folder);
    throw Error(ErrorCode::io, fmt::format("another process trains into {}", path.string()),
                "wait for it, or choose another folder with -o DIR");
  }
  return {&remedy, [folder, path, is_new](const void*) {
            if (is_new) ::rmdir(path.c_str());  // refuses a folder with content
            ::close(folder);
          }};
}

/// Renames a file of other content to options_restart-1.yaml, -2 and so on.
void keep_former(const fs::path& file, const std::string& content) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream former;
  former << stream.rdbuf();
  if (!stream || former.str() == content) return;
  for (int number = 1;; ++number) {
    const fs::path kept = file.parent_path() / fmt::format("{}-{}{}", file.stem().string(), number,
                                                           file.extension().string());
    std::error_code error;
    if (fs::exists(kept, error)) continue;
    fs::rename(file, kept, error);  // if it fails, the caller's write fails too
    return;
  }
}

bool holds_checkpoints(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator entries(folder / "checkpoints", error);
  return !error && entries != fs::directory_iterator();
}

}  // namespace

OutputFolder::OutputFolder(fs::path path, bool is_new)
    : path_(std::move(path)), lock_(locked(path_, is_new)) {}

OutputFolder OutputFolder::create(const std::optional<fs::path>& chosen,
                                  std::chrono::system_clock::time_point now, const fs::path& root) {
  if (!chosen) return OutputFolder(make_fresh(root, now), true);
  const bool is_new = make_chosen(*chosen);
  return OutputFolder(*chosen, is_new);
}

void OutputFolder::write_options(const std::string& resolved) const {
  keep_former(options(), resolved);
  const fs::path aside = options().string() + ".new";
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  file << resolved << std::flush;
  std::error_code error(file ? 0 : errno, std::generic_category());
  file.close();
  if (file) fs::rename(aside, options(), error);
  if (!file || error)
    throw Error(ErrorCode::io,
                fmt::format("{} cannot be written: {}", options().string(), error.message()),
                "check permissions and free space of the output folder");
}

std::optional<fs::path> newest_output(const fs::path& root,
                                      const std::function<bool(const fs::path&)>& fits) {
  std::error_code error;
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  for (const auto& day : fs::directory_iterator(root, error)) {
    std::error_code below;
    for (const auto& run : fs::directory_iterator(day.path(), below)) {
      if (!holds_checkpoints(run.path())) continue;
      const auto time = fs::last_write_time(run.path() / "checkpoints", below);
      if (below || (newest && time <= newest_time) || (fits && !fits(run.path()))) continue;
      newest = run.path();
      newest_time = time;
    }
  }
  return newest;
}

}  // namespace troupe

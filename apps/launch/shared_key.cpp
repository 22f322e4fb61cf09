#include "apps/launch/shared_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "apps/launch/child.h"
#include "runtime/control/interface.h"
#include "runtime/error.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw Error(ErrorCode::io, fmt::format("launch: the job's key in {}: {}", file.string(), why),
              "export TROUPE_JOB_KEY=$(openssl rand -hex 32), the same on all hosts");
}

fs::path folder_of_keys() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/')
    throw Error(ErrorCode::io, "launch: there is no home folder to keep the job's key in",
                "export TROUPE_JOB_KEY=$(openssl rand -hex 32), the same on all hosts");
  const fs::path folder = fs::path(home) / ".troupe" / "jobs";
  std::error_code failed;
  fs::create_directories(folder, failed);
  fs::permissions(folder, fs::perms::owner_all, failed);
  return folder;
}

/// Publishes a new key in one piece, unless somebody else has been faster.
bool publish(const fs::path& file, const std::string& text) {
  const fs::path part = fmt::format("{}.{}.{}", file.string(), host_name(), ::getpid());
  Descriptor writing(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!writing) refuse(part, std::strerror(errno));
  const bool written =
      ::write(writing.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  // A link is made or refused as a whole, also on NFS.
  const bool first = written && ::link(part.c_str(), file.c_str()) == 0;
  const int why = errno;
  ::unlink(part.c_str());
  if (!written || (!first && why != EEXIST)) refuse(file, std::strerror(why));
  return first;
}

std::string read_private(const fs::path& file) {
  const Descriptor reading(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat state {};
  if (!reading || ::fstat(reading.get(), &state) != 0) refuse(file, std::strerror(errno));
  if (state.st_uid != ::geteuid() || (state.st_mode & 077) != 0)
    refuse(file, "others may have read or written it");
  std::array<char, 256> text{};
  const auto size = ::read(reading.get(), text.data(), text.size());
  if (size < 0) refuse(file, std::strerror(errno));
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace

SharedKey::SharedKey(const std::string& run_id) {
  if (const char* text = std::getenv("TROUPE_JOB_KEY"); text != nullptr && *text != '\0') {
    key_ = JobKey::parse(text);
    source_ = "TROUPE_JOB_KEY";
    return;
  }
  const fs::path file = folder_of_keys() / (file_name_of(run_id) + ".key");
  source_ = file.string();
  if (publish(file, JobKey::generate().text())) made_ = file;
  key_ = JobKey::parse(read_private(file));
}

SharedKey::~SharedKey() {
  if (!made_.empty()) ::unlink(made_.c_str());
}

}  // namespace troupe

#include "tests/unit/runtime/transport/processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace troupe::test {
namespace {

std::filesystem::path new_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "troupe-ranks-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw Error(ErrorCode::io, "no temporary folder");
  return name;
}

}  // namespace

std::filesystem::path FolderStore::file(const std::string& key) const {
  std::string name = key;
  for (char& letter : name)
    if (letter == '/') letter = '+';
  return folder_ / name;
}

Status FolderStore::put(const std::string& key, std::string value) {
  const std::filesystem::path path = file(key), temporary = path.string() + ".new";
  std::ofstream(temporary, std::ios::binary) << value;
  std::filesystem::rename(temporary, path);  // seen whole or not at all
  return success();
}

Result<std::string> FolderStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (std::ifstream stream(file(key), std::ios::binary); stream)
      return std::string(std::istreambuf_iterator<char>(stream), {});
    if (std::chrono::steady_clock::now() >= deadline)
      return Error(ErrorCode::timed_out, "nobody put '" + key + "'");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<std::string> FolderStore::claim(const std::string& key, std::chrono::milliseconds timeout) {
  if (std::filesystem::create_directory(file(key).string() + ".claimed")) return std::string();
  return get(key, timeout);
}

Processes::Processes(int size, const std::function<int(int rank, Store& store)>& part)
    : folder_(new_folder()), store_(folder_) {
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    // Never kept: a signal to process -1 goes to all that there are.
    if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (child != 0) {
      pids_.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 99;
    try {
      status = part(rank, store_);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
}

Processes::~Processes() {
  for (const pid_t child : pids_) {
    if (child <= 0) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  std::filesystem::remove_all(folder_);
}

int Processes::wait(int rank) {
  int status = 0;
  pid_t& child = pids_.at(static_cast<std::size_t>(rank));
  if (::waitpid(child, &status, 0) != child) return 98;
  child = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace troupe::test

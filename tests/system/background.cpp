#include "tests/system/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void redirect(const fs::path& file, int number) {
  ::dup2(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), number);
}

bool has_entries(const fs::path& process, const std::vector<std::string>& entries) {
  const std::string all =
      '\0' + text_of(process / "environ") + '\0' + text_of(process / "cmdline") + '\0';
  return std::ranges::all_of(entries, [&](const std::string& entry) {
    return all.find('\0' + entry + '\0') != std::string::npos;
  });
}

}  // namespace

void send_signal(pid_t process, int number) {
  if (process <= 0) throw std::runtime_error("there is no process to send a signal to");
  ::kill(process, number);
}

Background::Background(const std::vector<std::string>& words) {
  std::string pattern = (fs::temp_directory_path() / "troupe_background_XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ != 0) return;
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY), 0);
  redirect(folder_ / "out", 1);
  redirect(folder_ / "error", 2);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

Background::~Background() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Background::signal(int number) const { send_signal(pid_, number); }

bool Background::runs() const {
  siginfo_t ended{};
  return pid_ > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0;
}

Outcome Background::wait(std::chrono::seconds limit) {
  int status = 0;
  const auto end = std::chrono::steady_clock::now() + limit;
  bool late = false;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (!late && std::chrono::steady_clock::now() > end) {
      late = true;
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);
    }
    ::usleep(2000);
  }
  pid_ = -1;
  const int code = late ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, text_of(folder_ / "out"), text_of(folder_ / "error")};
}

std::vector<pid_t> processes_with(const std::vector<std::string>& entries) {
  std::vector<pid_t> found;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(process.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    // A process may end while it is looked at; a zombie has no environment left.
    if (has_entries(process.path(), entries)) found.push_back(pid);
  }
  return found;
}

}  // namespace troupe

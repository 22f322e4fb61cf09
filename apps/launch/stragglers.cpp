#include "apps/launch/stragglers.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace troupe {
namespace {

/// The parent of a process and whether it is a zombie, from /proc/PID/stat.
struct Kin {
  pid_t parent = 0;
  char state = '?';
};

Kin kin_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  // The name in between may hold anything, parentheses included.
  const auto name_end = text.rfind(") ");
  if (name_end == text.npos || name_end + 4 >= text.size()) return {};
  return {.parent = static_cast<pid_t>(std::atol(text.c_str() + name_end + 4)),
          .state = text[name_end + 2]};
}

/// The calling process's children: those that still run, and zombies.
struct Children {
  std::vector<pid_t> running, ended;
};

Children children() {
  Children found;
  const pid_t self = ::getpid();
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const auto name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    const Kin kin = kin_of(entry.path());
    if (kin.parent != self) continue;
    (kin.state == 'Z' ? found.ended : found.running)
        .push_back(static_cast<pid_t>(std::atol(name.c_str())));
  }
  return found;
}

}  // namespace

void reap_adopted(std::span<const pid_t> own) {
  siginfo_t info{};
  // Looks before it takes, so that the launcher's own children keep their endings. While one of
  // those is the first to be seen, adopted ones wait for the next signal.
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    if (std::find(own.begin(), own.end(), info.si_pid) != own.end()) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    info.si_pid = 0;
  }
}

void end_stragglers(pid_t spared) {
  constexpr timespec moment{.tv_sec = 0, .tv_nsec = 2'000'000};
  constexpr int most_moments = 1000;  // two seconds: a process in the kernel's hands may not end
  for (int i = 0; i < most_moments; ++i) {
    Children found = children();
    std::erase(found.running, spared);
    for (const pid_t child : found.ended) ::waitpid(child, nullptr, WNOHANG);
    if (found.running.empty() && found.ended.empty()) return;
    for (const pid_t child : found.running) ::kill(child, SIGKILL);
    ::nanosleep(&moment, nullptr);
  }
}

}  // namespace troupe

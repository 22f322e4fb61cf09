#include "tests/system/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace troupe {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool runs(pid_t pid) {
  const std::string stat = content("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
}

Running::Running(std::vector<std::string> words, const std::string& error) {
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ != 0) return;
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::dup2(::open(error.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600), 2);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

Running::~Running() {
  if (!waited_) ::kill(pid_, SIGKILL), wait();
}

void Running::signal(int number) const { send_signal(pid_, number); }

int Running::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  waited_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Launch::Launch() {
  fs::create_directories(root_);
  ::setenv("TMPDIR", root_.c_str(), 1);  // a launcher that is killed cannot clear up
}

Launch::~Launch() {
  ::unsetenv("TMPDIR");
  fs::remove_all(root_);
}

std::vector<std::string> Launch::words(const std::vector<std::string>& flags,
                                       const std::string& script) const {
  std::vector<std::string> all{TROUPE_BINARY, "launch"};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), {"--", "/bin/sh", "-c", "cd '" + root_.string() + "'; " + script});
  return all;
}

Outcome Launch::run(const std::vector<std::string>& flags, const std::string& script) const {
  return run_process(words(flags, script), root_.string());
}

Outcome Launch::troupe(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {TROUPE_BINARY, "launch"});
  return run_process(arguments, root_.string());
}

int Launch::number_in(const std::string& name) const {
  EXPECT_TRUE(comes_true([&] { return content(root_ / name).ends_with("\n"); })) << name;
  return std::atoi(content(root_ / name).c_str());
}

}  // namespace troupe

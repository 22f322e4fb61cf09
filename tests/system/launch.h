#pragma once
// `troupe launch` from outside, with shells for processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/system/background.h"
#include "tests/system/process.h"

namespace troupe {

std::string content(const std::filesystem::path& file);

/// Whether a process runs: zombies do not.
bool runs(pid_t pid);

/// A launcher that goes on while the test does something to it.
class Running {
 public:
  explicit Running(std::vector<std::string> words, const std::string& error = "/dev/null");
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void signal(int number) const;
  int wait();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  bool waited_ = false;
};

class Launch : public testing::Test {
 protected:
  Launch();
  ~Launch() override;

  /// troupe launch FLAGS -- sh -c SCRIPT, in the test's folder.
  std::vector<std::string> words(const std::vector<std::string>& flags,
                                 const std::string& script) const;
  Outcome run(const std::vector<std::string>& flags, const std::string& script) const;
  Outcome troupe(std::vector<std::string> arguments) const;
  /// The number that a process of the test has written to a file, once it is there.
  int number_in(const std::string& name) const;

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("troupe-launch-" + std::to_string(::getpid()));
};

}  // namespace troupe

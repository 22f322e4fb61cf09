// A program that waits for the processes that a launcher has promised.
#include "runtime/remote/joined_world.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <utility>

#include "runtime/program.h"

namespace troupe {
namespace {

/// Rank 0 of two, whose other one never comes, and who is asked to stop. Ends this process.
void wait_in_vain() {
  std::string folder = testing::TempDir() + "troupe_join_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) ::_exit(1);
  const std::string job_file = folder + "/job";
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", "0"},       {"WORLD_SIZE", "2"},           {"MASTER_ADDR", "127.0.0.1"},
      {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"},     {"MASTER_PORT", "29555"},
      {"HOME", "/"},       {"TROUPE_JOB_FILE", job_file},
  };
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
  const int code = run_main([](const std::stop_token& stop) {
    ::kill(::getpid(), SIGTERM);
    JoinedWorld::join({.timeout = std::chrono::minutes(5)}, stop);
  });
  std::filesystem::remove_all(folder);
  ::_exit(code);
}

TEST(JoinedWorldDeathTest, IsLeftAtARequestToStopWhileOthersAreMissing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(wait_in_vain(), testing::ExitedWithCode(75),
              "^stopping before the next step; a second signal ends at once\n$");
}

}  // namespace
}  // namespace troupe

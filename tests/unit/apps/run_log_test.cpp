// What a run has told is in its files when it is awaited.
#include "apps/run_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace troupe {
namespace {

namespace fs = std::filesystem;

class RunLogs : public testing::Test {
 protected:
  RunLogs() {
    std::string pattern = (fs::temp_directory_path() / "troupe_run_log_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~RunLogs() override { fs::remove_all(root_); }

  std::ptrdiff_t rows() const {
    std::ifstream file(root_ / "out" / "train.csv");
    constexpr std::ptrdiff_t names_and_units = 2;
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n') - names_and_units;
  }

  fs::path root_;
};

// A checkpoint that outlives a kill must not lack the rows before it.
TEST_F(RunLogs, HaveTheRowsThatAreAwaited) {
  constexpr std::uint32_t steps = 400;
  const auto folder = OutputFolder::create(root_ / "out");
  RunLog log(Options{}, folder, {.steps = steps, .steps_per_epoch = steps}, {});
  log.await_rows(0);
  const std::jthread monitor([&] {
    for (std::uint32_t step = 1; step <= steps; ++step)
      log.step({.step = step, .samples = 1, .duration = std::chrono::milliseconds(1)});
  });
  for (std::uint32_t step = 50; step <= steps; step += 50) {
    log.await_rows(step);
    EXPECT_GE(rows(), step);
  }
}

}  // namespace
}  // namespace troupe

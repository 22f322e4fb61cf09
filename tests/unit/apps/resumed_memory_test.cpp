// The memory of a run that begins with the state of a checkpoint or with given weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/program.h"
#include "runtime/tensor/allocator.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

// A job that fits must fit again when it goes on from its checkpoint.
TEST(ResumedMemory, IsNoMoreThanThatOfANewRun) {
  const test::TemporaryFolder folder;
  const auto path = [&](const std::string& name) { return (folder / name).string(); };
  test::write_text(path("o.yaml"),
                   "model: {name: mlp, widths: [512, 512], classes: 10}\n"
                   "data: {name: synthetic, shape: [1, 16, 16], count: 16}\n"
                   "train: {epochs: 4, batch_size: 8, micro_batches: 1, optimizer: adamw}\n");
  constexpr std::size_t weights = (256 * 512 + 512 * 512) * sizeof(float);  // the optimizer: 2 more
  CachingAllocator& allocator = CachingAllocator::of({});
  const auto peak = [&](const std::string& output, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", path("o.yaml"), "-o", path(output)};
    words.insert(words.end(), more.begin(), more.end());
    const std::size_t before = allocator.counters().in_use_bytes;
    allocator.reset_peak();
    const Ran ran = run_troupe(words);
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    return allocator.counters().peak_bytes - before;
  };
  const std::size_t whole = peak("whole", {});
  EXPECT_GT(whole, 6 * weights) << "two versions of the state";
  (void)peak("part", {"-r", "train.steps=2"});
  EXPECT_LT(peak("part", {"--restart", "auto"}), whole + weights);
  EXPECT_LT(peak("tuned", {"-r", "model.weights=" + path("whole")}), whole + weights / 2);
}

}  // namespace
}  // namespace troupe

// What a process of a run has in memory: its own part of the model, whatever the model's size.
#include <csignal>
#include <fstream>

#include "tests/sanitized.h"
#include "tests/system/world.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// Seven layers of 3072 × 3072 weights in eight stages and processes. The weights make 253 MiB, the
/// part of a process 36: training needs it about four times (the weights it began with, the next
/// ones, the gradients of a micro-batch and their sum), beside some 40 MiB for the program.
class LargeModel : public World {
 protected:
  static constexpr int processes = 8;

  void SetUp() override {
    if (is_sanitized) GTEST_SKIP() << "a sanitizer's own memory hides that of the program";
    std::ofstream(root_ / "options.yaml") << R"(
seed: 5
model: {name: mlp, widths: [3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072], classes: 4}
data: {name: synthetic, shape: [1, 8, 8], classes: 4, count: 16}
train: {steps: 1, batch_size: 8, micro_batches: 2, momentum: 0, evaluate: false}
parallel: {pipeline: 8, partition: [2, 1, 1, 1, 1, 1, 1, 2], timeout: 20s}
checkpoint: {keep: 0}
)";
  }

  Words measured(const Words& program) const {
    return Words{TROUPE_PEAK_MEMORY, (root_ / "peak").string()} + program;
  }

  /// The most that a process had in memory, in bytes.
  std::uintmax_t peak(const std::string& process) const {
    std::ifstream file(root_ / ("peak." + process));
    std::uintmax_t kib = 0;
    EXPECT_TRUE(file >> kib) << process;
    return kib * 1024;
  }

  /// Trains in eight processes, none of which has the whole model in memory at any time.
  void expect_parts(const std::string& output, const Words& more) const {
    const Outcome ran =
        Background(launch_words(processes, measured(train_words(output, more)))).wait();
    ASSERT_EQ(ran.exit_code, 0) << ran.error;
    for (int rank = 0; rank < processes; ++rank)
      EXPECT_LT(peak(std::to_string(rank)), whole) << "rank " << rank;
  }

  /// Runs the command alone.
  Outcome run_measured(const Words& words) const {
    return Background(measured(Words{TROUPE_BINARY} + words)).wait();
  }

  static constexpr std::uintmax_t whole = 7ull * 3072 * 3072 * 4;  ///< bytes of the large layers
};

TEST_F(LargeModel, IsNeverInOneProcessAsAWhole) {
  const Words other_partition = with({"parallel.partition=[3, 1, 1, 1, 1, 1, 1, 1]"});
  const std::string file = (root_ / "weights.safetensors").string();
  const std::string out = (root_ / "out").string();
  {
    SCOPED_TRACE("drawn from the seed, then written");
    expect_parts("out", {});
  }
  {
    SCOPED_TRACE("resumed with another partition");
    expect_parts("out", Words{"--restart", "auto"} + with({"train.steps=2"}) + other_partition);
  }
  const Outcome exported = run_measured({"export", out, "-o", file});
  ASSERT_EQ(exported.exit_code, 0) << exported.error;
  EXPECT_GT(fs::file_size(file), whole);
  EXPECT_LT(peak("alone"), whole) << "exporting";
  {
    SCOPED_TRACE("begun from a safetensors file");
    expect_parts("from_file", with({"model.weights=" + file}));
  }
  {
    SCOPED_TRACE("begun from the weights of a checkpoint");
    expect_parts("from_checkpoint", with({"model.weights=" + out}) + other_partition);
  }
  EXPECT_EQ(digest("from_file"), digest("from_checkpoint"));
  for (const std::string& of : {file, out}) {
    ASSERT_EQ(run_measured({"inspect", "--digest", of}).exit_code, 0);
    EXPECT_LT(peak("alone"), whole) << "the digest of " << of;
  }
}

// CAF allocates between putting a message into a mailbox and scheduling its receiver. Where that
// failed, the receiver never ran again, and the run waited for it.
TEST(MemoryShortage, EndsARunAndNeverHangsIt) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer ends the process when an allocation fails";
  const auto run_with = [](long failing, const char* which) {
    return Background({TROUPE_FAILING_ALLOCATION, std::to_string(failing), which})
        .wait(std::chrono::seconds(20));
  };
  const Outcome calm = run_with(1'000'000, "one");
  ASSERT_EQ(calm.exit_code, 0) << calm.error;
  const long allocations = std::stol(calm.out.substr(calm.out.find(", ") + 2));
  ASSERT_GT(allocations, 100) << calm.out;
  constexpr long apart = 3;
  for (long failing = 1; failing <= allocations; failing += apart)
    for (const char* which : {"one", "and-later"}) {
      SCOPED_TRACE(std::to_string(failing) + " of " + std::to_string(allocations) +
                   " failed: " + which);
      ASSERT_THAT(run_with(failing, which).exit_code, testing::AnyOf(0, 1, 4));
    }
}

// A packet to another process is several tensors and a message; the receiver must never take one
// without the others.
TEST(MemoryShortage, LeavesNoPartOfAMessageToAnotherProcess) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer ends the process when an allocation fails";
  const auto run_with = [](long failing, const char* rank, const char* transport) {
    return Background({TROUPE_BINARY, "launch", "--standalone", "--nproc-per-node", "2", "--",
                       TROUPE_FAILING_ALLOCATION, std::to_string(failing), "one", rank, transport})
        .wait(std::chrono::seconds(20));
  };
  for (const char* transport : {"shm", "gloo"})
    for (const char* rank : {"0", "1"}) {
      const Outcome calm = run_with(1'000'000, rank, transport);
      ASSERT_EQ(calm.exit_code, 0) << calm.error;
      for (long failing = 3; failing <= 27; failing += 3) {
        SCOPED_TRACE(testing::Message() << failing << " failed in " << rank << " by " << transport);
        constexpr int aborted = 128 + SIGABRT;  // ZeroMQ ends the process without its memory
        ASSERT_THAT(run_with(failing, rank, transport).exit_code, testing::AnyOf(0, 1, 4, aborted));
      }
    }
}

TEST_F(LargeModel, IsMeasuredInParts) {
  const Outcome plan = run_measured({"plan", (root_ / "options.yaml").string(), "-r",
                                     "parallel.partition=auto", "--nnodes", "1"});
  EXPECT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_LT(peak("alone"), whole);
}

}  // namespace
}  // namespace troupe

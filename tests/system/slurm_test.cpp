// The Slurm that tests start: what it runs, and that nothing of it stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/system/slurm_cluster.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class Slurm : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

TEST_F(Slurm, RunsTwoTasksOnEachOfTwoNodes) {
  const SlurmCluster slurm;
  const Outcome ran = slurm.run({"srun", "-N2", "--ntasks-per-node=2", "sh", "-c",
                                 "echo $SLURM_PROCID $SLURM_LOCALID $SLURMD_NODENAME"});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(lines_of(ran.out),
              UnorderedElementsAre("0 0 node0", "1 1 node0", "2 0 node1", "3 1 node1"));
}

TEST_F(Slurm, TrainsInTheWorldOfAStepWithoutAnyWrapper) {
  const SlurmCluster slurm;
  std::ofstream(slurm.folder() / "options.yaml")
      << "model: {name: mlp, widths: [32, 32]}\ndata: {name: synthetic, count: 640}\n"
         "train: {micro_batches: 4}\nparallel: {pipeline: 2, data: 2, partition: [2, 2]}\n";
  const std::string folder = slurm.folder();
  const Outcome alone =
      run_process({TROUPE_BINARY, "train", "options.yaml", "-o", "alone"}, folder);
  ASSERT_EQ(alone.exit_code, 0) << alone.error;
  const Outcome ran = slurm.run({"srun", "-N2", "--ntasks-per-node=2", TROUPE_BINARY, "train",
                                 "options.yaml", "-o", "together"},
                                folder);
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out, ContainsRegex(
                           "4 processes on 1 host \\(.*: 0-3\\), shared memory, started by slurm"));
  const auto digest = [&](const std::string& name) {
    return run_process({TROUPE_BINARY, "inspect", "--digest", name}, folder).out;
  };
  EXPECT_EQ(digest("together"), digest("alone"));
  EXPECT_EQ(digest("together").size(), 65u);
}

TEST_F(Slurm, RunsABatchScriptAndFindsItsTasks) {
  const SlurmCluster slurm;
  const fs::path script = slurm.folder() / "job.sh";
  std::ofstream(script) << "#!/bin/bash\n#SBATCH --ntasks=2 --nodes=2\nsrun sleep 60\n";
  const std::string job = slurm.submit(script, slurm.folder());
  pid_t task = -1;
  for (int tries = 0; tries < 3000 && task < 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    task = slurm.process_of(job, 1);
  }
  ASSERT_GT(task, 0) << slurm.state(job);
  EXPECT_EQ(slurm.state(job), "RUNNING");
  EXPECT_EQ(slurm.run({"scancel", job}).exit_code, 0);
  EXPECT_EQ(slurm.wait_for_end(job), "CANCELLED");
}

TEST_F(Slurm, StepsAreLookedAtByTheDoctor) {
  const SlurmCluster slurm;
  const std::string options = slurm.folder() / "options.yaml";
  std::ofstream(options) << "model: {name: mlp}\ndata: {name: synthetic}\n"
                            "parallel: {pipeline: 2, data: 2}\n";
  std::vector<std::string> words = {"srun",        "-N2",    "--ntasks-per-node=2",
                                    TROUPE_BINARY, "doctor", options};
  const Outcome well = slurm.run(words);
  EXPECT_EQ(well.exit_code, 0) << well.out << well.error;
  words.insert(words.begin(), {"env", "MASTER_ADDR=127.0.0.1", "TORCH_NCCL_ASYNC_HANDLING=1"});
  const Outcome ill = slurm.run(words);
  EXPECT_EQ(ill.exit_code, 1);
  EXPECT_THAT(ill.out, HasSubstr("error: world: MASTER_ADDR is 127.0.0.1"));
  EXPECT_THAT(ill.out, HasSubstr("write TORCH_NCCL_ASYNC_ERROR_HANDLING"));
  words = {"srun", "-N2", "-n3", TROUPE_BINARY, "doctor", options};
  const Outcome uneven = slurm.run(words);
  EXPECT_EQ(uneven.exit_code, 0) << uneven.out;
  EXPECT_THAT(uneven.out, HasSubstr("warning: world: 4 stages over 3 processes"));
  words = {"srun", "-N2", "--ntasks-per-node=3", TROUPE_BINARY, "doctor", options};
  EXPECT_THAT(slurm.run(words).out,
              HasSubstr("6 processes, but parallel.pipeline 2 × parallel.data 2"));
}

TEST_F(Slurm, LeavesNothingBehind) {
  fs::path folder;
  pid_t task = -1;
  {
    const SlurmCluster slurm;
    folder = slurm.folder();
    const fs::path script = folder / "job.sh";
    std::ofstream(script) << "#!/bin/bash\nsrun setsid sleep 600\n";
    const std::string job = slurm.submit(script, folder);
    for (int tries = 0; tries < 3000 && task < 0; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      task = slurm.process_of(job, 0);
    }
  }
  ASSERT_GT(task, 0);
  EXPECT_FALSE(fs::exists(folder));
  // A moment after its cluster, whose processes the kernel ends one after the other.
  const fs::path process = "/proc/" + std::to_string(task);
  for (int tries = 0; tries < 3000 && fs::exists(process); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(fs::exists(process));
}

}  // namespace
}  // namespace troupe

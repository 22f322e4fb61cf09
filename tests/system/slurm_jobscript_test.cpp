// Generated job scripts before a real Slurm: it takes every cluster's, and what they do at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/system/slurm_cluster.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

const char* const options_of_eight =
    "model: {name: mlp}\ndata: {name: synthetic}\n"
    "train: {micro_batches: 8}\nparallel: {pipeline: 2, data: 4}\n";

/// The script without what only its own site knows.
std::string for_test_cluster(std::string script) {
  script =
      std::regex_replace(script, std::regex("#SBATCH --(uenv|view|qos|constraint)=[^\n]*\n"), "");
  return std::regex_replace(script, std::regex("#SBATCH --partition=[^\n]*"),
                            "#SBATCH --partition=test");
}

class SlurmJobscript : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
    slurm_ = std::make_unique<SlurmCluster>();
  }

  fs::path file(const std::string& name, const std::string& content) const {
    fs::path path = slurm_->folder() / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  Outcome jobscript(std::vector<std::string> words) const {
    words.insert(words.begin(), {TROUPE_BINARY, "jobscript"});
    return run_process(words, slurm_->folder());
  }
  std::string content(const std::string& name) const {
    std::ifstream stream(slurm_->folder() / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Waits until a file has so many lines.
  bool wait_for_lines(const std::string& name, std::ptrdiff_t lines) const {
    for (int tries = 0; tries < 3000; ++tries) {
      const std::string text = content(name);
      if (std::count(text.begin(), text.end(), '\n') >= lines) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  void write_profile() const {
    file("mine.yaml",
         "title: Test\nneeds_account: false\n"
         "nodes: [{name: n, architecture: x86_64, cores: 4, core_memory: 1}]\n"
         "partitions: [{name: test, nodes: n, max_nodes: 2, max_time: '01:00:00'}]\n");
  }
  /// Of a run of so many steps.
  void write_options(int steps) const {
    file("options.yaml",
         "model: {name: mlp, widths: [64, 64]}\ndata: {name: synthetic, count: 6400}\n"
         "train: {epochs: 100000, micro_batches: 2, evaluate: false, steps: " +
             std::to_string(steps) + "}\nparallel: {pipeline: 2}\ncheckpoint: {keep: 2}\n");
  }
  /// Submits a run that only a signal ends, on two nodes.
  std::string submit_endless(const std::string& time) const {
    write_profile();
    write_options(10'000'000);
    const Outcome made = jobscript({"--cluster", "./mine.yaml", "--nodes", "2", "--time", time,
                                    "--program", TROUPE_BINARY, "-o", ".", "options.yaml"});
    EXPECT_EQ(made.exit_code, 0) << made.error;
    return slurm_->submit("options.sh", slurm_->folder());
  }
  /// Waits until the run has stopped, lets it end 100 steps later when the job is back, which takes
  /// some seconds, and compares its weights with those of a run that nothing interrupted.
  void expect_it_goes_on(const std::string& job) const {
    std::string text;  // `stopped` refers to it
    std::smatch stopped;
    const std::regex stop("stopped after step ([0-9]+)");
    const auto log = [&] { return content("options-" + job + ".out"); };
    for (; !std::regex_search(text, stopped, stop); text = log()) {
      const std::string state = slurm_->state(job);
      ASSERT_TRUE(state != "TIMEOUT" && state != "COMPLETED" && state != "FAILED")
          << state << content("options-" + job + ".err");
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    write_options(std::stoi(stopped[1].str()) + 100);
    EXPECT_EQ(slurm_->wait_for_end(job), "COMPLETED") << content("options-" + job + ".err");
    EXPECT_THAT(log(), HasSubstr("resuming from"));
    const std::string folder = slurm_->folder();
    const Outcome whole =
        run_process({TROUPE_BINARY, "train", "options.yaml", "-o", "whole"}, folder);
    ASSERT_EQ(whole.exit_code, 0) << whole.error;
    const auto digest = [&](const std::string& name) {
      return run_process({TROUPE_BINARY, "inspect", "--digest", name}, folder).out;
    };
    EXPECT_EQ(digest("outputs/options-" + job), digest("whole"));
    EXPECT_NE(digest("whole"), "");
  }
  /// A job whose program notes that it runs, and ends with 75 on the signal, with 0 when requeued.
  std::string submit_stoppable(const std::vector<std::string>& layout = {"--nodes", "2"}) const {
    write_profile();
    file("options.yaml", "model: {name: mlp}\ndata: {name: synthetic}\nparallel: {pipeline: 2}\n");
    const fs::path program = file("program.sh",
                                  "#!/bin/bash\n"
                                  "[ \"$1\" != doctor ] || exit 0\n"
                                  "trap 'exit 75' USR1 TERM\n"
                                  "echo \"$SLURM_PROCID ${SLURM_RESTART_COUNT:-0} $*\" >> runs\n"
                                  "echo \"$TROUPE_JOB_KEY $TROUPE_JOB_FILE\" >> keys\n"
                                  "[ \"${SLURM_RESTART_COUNT:-0}\" -eq 0 ] || exit 0\n"
                                  "while :; do sleep 0.05; done\n");
    fs::permissions(program, fs::perms::owner_all);
    std::vector<std::string> words = {"--cluster", "./mine.yaml", "--time",
                                      "30m",       "--program",   program,
                                      "-o",        ".",           "options.yaml"};
    words.insert(words.end(), layout.begin(), layout.end());
    const Outcome made = jobscript(words);
    EXPECT_EQ(made.exit_code, 0) << made.error;
    return slurm_->submit("options.sh", slurm_->folder());
  }

  std::unique_ptr<SlurmCluster> slurm_;
};

TEST_F(SlurmJobscript, IsAcceptedForEveryCluster) {
  file("options.yaml", options_of_eight);
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCE_DIR "/clusters")) {
    const std::string cluster = entry.path().stem();
    for (const std::vector<std::string>& variant :
         {std::vector<std::string>{"--nodes", "2", "-r", "device=cpu"},
          {"--nodes", "1", "--gpus-per-node", "0"},
          {"--nodes", "2", "--launcher", "launch", "-r", "device=cpu"}}) {
      // Olivia, Narval and the like have four GPUs a node, Nibi and LUMI eight.
      std::vector<std::string> words = {"--cluster", cluster, "--time", "1h", "-A", "project"};
      words.insert(words.end(), variant.begin(), variant.end());
      if (cluster == "nibi" && variant[1] == "2")
        words.insert(words.end(), {"--gpus-per-node", "4"});
      if (cluster == "roihu" && variant[1] == "2")
        words.insert(words.end(), {"--partition", "gpularge"});
      words.emplace_back("options.yaml");
      const Outcome made = jobscript(words);
      ASSERT_EQ(made.exit_code, 0) << cluster << ": " << made.error;
      const fs::path script = file("job.sh", for_test_cluster(made.out));
      const Outcome syntax = run_process({"/bin/bash", "-n", script.string()});
      EXPECT_EQ(syntax.exit_code, 0) << cluster << ": " << syntax.error;
      const Outcome tested = slurm_->run({"sbatch", "--test-only", script.string()});
      EXPECT_EQ(tested.exit_code, 0) << cluster << ": " << tested.error << made.out;
      EXPECT_THAT(tested.error, HasSubstr("to start at")) << cluster;
    }
  }
}

TEST_F(SlurmJobscript, QueuesAgainAfterTheSignalAndThenEnds) {
  const std::string job = submit_stoppable();
  ASSERT_TRUE(wait_for_lines("runs", 2))
      << slurm_->state(job) << content("options-" + job + ".err");
  EXPECT_EQ(slurm_->run({"scancel", "--signal=USR1", job}).exit_code, 0);
  EXPECT_TRUE(wait_for_lines("runs", 4))
      << slurm_->state(job) << content("options-" + job + ".err");
  EXPECT_EQ(slurm_->wait_for_end(job), "COMPLETED");
  const std::string folder = "train options.yaml -o outputs/options-" + job + " --restart auto";
  EXPECT_THAT(content("runs"), HasSubstr("0 0 " + folder + "\n"));
  EXPECT_THAT(content("runs"), HasSubstr("1 1 " + folder + "\n"));
}

// The last task of an array has the job number of the array, which stands for all of its tasks.
TEST_F(SlurmJobscript, QueuesATaskOfAnArrayAgainAndNoOther) {
  const std::string array = submit_stoppable({"--nodes", "1", "--sbatch=--array=0-1"});
  ASSERT_TRUE(wait_for_lines("runs", 4)) << content("runs");
  EXPECT_EQ(slurm_->run({"scancel", array + "_0"}).exit_code, 0);
  EXPECT_EQ(slurm_->wait_for_end(array + "_0"), "CANCELLED");
  EXPECT_EQ(slurm_->run({"scancel", "--signal=USR1", array + "_1"}).exit_code, 0);
  EXPECT_TRUE(wait_for_lines("runs", 6)) << content("runs");
  EXPECT_EQ(slurm_->wait_for_end(array + "_1"), "COMPLETED");
  EXPECT_EQ(slurm_->state(array + "_0"), "CANCELLED");
}

TEST_F(SlurmJobscript, DrawsAKeyAtEachStartThatTheLogDoesNotShow) {
  const std::string job = submit_stoppable();
  ASSERT_TRUE(wait_for_lines("keys", 2)) << slurm_->state(job);
  EXPECT_EQ(slurm_->run({"scancel", "--signal=USR1", job}).exit_code, 0);
  ASSERT_TRUE(wait_for_lines("keys", 4)) << slurm_->state(job);
  EXPECT_EQ(slurm_->wait_for_end(job), "COMPLETED");
  std::istringstream lines(content("keys"));
  std::vector<std::string> seen;
  for (std::string line; std::getline(lines, line);) seen.push_back(line);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_TRUE(std::regex_match(seen[0], std::regex("[0-9a-f]{64} /.*/\\.troupe-" + job + "-0")))
      << seen[0];
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[2], seen[3]);
  EXPECT_NE(seen[0].substr(0, 64), seen[2].substr(0, 64));
  const std::string log = content("options-" + job + ".out") + content("options-" + job + ".err");
  EXPECT_THAT(log, HasSubstr("SLURM_JOB_ID=" + job));
  EXPECT_THAT(log, testing::Not(HasSubstr(seen[0].substr(0, 64))));
  EXPECT_THAT(log, testing::Not(HasSubstr(seen[2].substr(0, 64))));
}

TEST_F(SlurmJobscript, OnTwoNodesEndsWithTheWeightsOfATrainingThatNothingInterrupted) {
  const std::string job = submit_endless("30m");
  ASSERT_TRUE(wait_for_lines("outputs/options-" + job + "/train.csv", 300))
      << content("options-" + job + ".err");
  EXPECT_EQ(slurm_->run({"scancel", "--signal=USR1", job}).exit_code, 0);
  expect_it_goes_on(job);
  EXPECT_THAT(
      content("options-" + job + ".out"),
      ContainsRegex("2 processes on 1 host \\(.*: 0-1\\), shared memory, started by slurm"));
}

/// Slurm itself sends the signal, 30 to 60 seconds after the start.
TEST_F(SlurmJobscript, SavesAndQueuesAgainBeforeItsTimeLimit) {
  const std::string job = submit_endless("2m");
  EXPECT_THAT(content("options.sh"), HasSubstr("#SBATCH --signal=USR1@60"));
  expect_it_goes_on(job);
}

TEST_F(SlurmJobscript, StaysAwayWhenItIsCancelled) {
  const std::string job = submit_stoppable();
  ASSERT_TRUE(wait_for_lines("runs", 2)) << slurm_->state(job);
  EXPECT_EQ(slurm_->run({"scancel", job}).exit_code, 0);
  EXPECT_EQ(slurm_->wait_for_end(job), "CANCELLED");
  std::this_thread::sleep_for(std::chrono::seconds(8));  // a requeued job would be back by now
  EXPECT_EQ(slurm_->state(job), "CANCELLED");
  const std::string runs = content("runs");
  EXPECT_EQ(std::count(runs.begin(), runs.end(), '\n'), 2);
}

}  // namespace
}  // namespace troupe

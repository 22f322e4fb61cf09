// `troupe train` from outside: what it leaves behind, and what kills and faults leave of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/system/background.h"
#include "tests/system/process.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr auto recipe = R"(
seed: 5
model: {name: mnist_cnn, classes: 4}
data: {name: synthetic, shape: [1, 8, 8], classes: 4, count: 320, mean: [0.5], std: [0.25], augment: [flip]}
train: {epochs: 2, batch_size: 16, micro_batches: 4, lr: 0.05}
parallel: {pipeline: 2, partition: [2, 2], actor_threads: 2}
checkpoint: {every_steps: 5, keep: 0}
)";
constexpr int steps = 40;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

class Train : public testing::Test {
 protected:
  Train() {
    std::string pattern = (fs::temp_directory_path() / "troupe_train_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::ofstream(root_ / "options.yaml") << recipe;
  }
  ~Train() override { fs::remove_all(root_); }

  static Outcome command(std::vector<std::string> words) {
    words.insert(words.begin(), TROUPE_BINARY);
    return run_process(words);
  }
  std::vector<std::string> train_words(const std::string& output,
                                       const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"train", (root_ / "options.yaml").string(), "-o",
                                   (root_ / output).string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome train(const std::string& output, const std::vector<std::string>& more = {}) const {
    return command(train_words(output, more));
  }
  static std::string digest(const fs::path& path) {
    const Outcome outcome = command({"inspect", "--digest", path.string()});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr("\n"));
    return digest_in(outcome);
  }
  /// Of an undisturbed run; made once for all tests.
  std::string reference() const {
    static std::string known;
    if (known.empty()) {
      EXPECT_EQ(train("reference").exit_code, 0);
      known = digest(root_ / "reference");
    }
    return known;
  }
  fs::path checkpoint(const std::string& output, int step) const {
    return root_ / output / "checkpoints" /
           ("step_000000" + std::string(step < 10 ? "0" : "") + std::to_string(step));
  }

  /// Starts a run, waits until `ready` says so of it, sends a signal; the exit code.
  int interrupt_when(const std::string& output, int signal, const std::vector<std::string>& more,
                     const std::function<bool(pid_t)>& ready) const {
    std::vector<std::string> words = train_words(output, more);
    words.insert(words.begin(), TROUPE_BINARY);
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGHUP, SIG_DFL);  // however the tests were started
      std::vector<char*> arguments;
      for (auto& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      if (!std::freopen("/dev/null", "w", stdout)) ::_exit(126);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    const auto patience = std::chrono::steady_clock::now() + 200s;
    while (!ready(child) && std::chrono::steady_clock::now() < patience)
      std::this_thread::sleep_for(1ms);
    send_signal(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// When it has written its first checkpoint, which is long before its end: a machine too busy
  /// for the test to look must not let the run get there.
  int interrupt(const std::string& output, int signal) const {
    return interrupt_when(output, signal, longer_,
                          [&](pid_t) { return fs::exists(checkpoint(output, 5)); });
  }
  /// Goes on for ten steps where a run was ended, to the weights of one that was not; the last
  /// step.
  int expect_it_goes_on(const std::string& output) const {
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(root_ / output / "checkpoints"))
      newest = std::max(newest, entry.path());
    const int reached = std::stoi(newest.filename().string().substr(5));
    std::vector<std::string> words = longer_;
    words.insert(words.end(), {"-r", "train.steps=" + std::to_string(reached + 10)});
    EXPECT_EQ(train(output + "whole", words).exit_code, 0);
    words.insert(words.begin(), {"--restart", "auto"});
    const Outcome rest = train(output, words);
    EXPECT_EQ(rest.exit_code, 0) << rest.error;
    EXPECT_THAT(rest.out, HasSubstr("at step " + std::to_string(reached)));
    EXPECT_EQ(digest(root_ / output), digest(root_ / (output + "whole")));
    return reached + 10;
  }

  const std::vector<std::string> longer_{"-r", "train.epochs=5000"};
  fs::path root_;
};

TEST_F(Train, LeavesAFolderThatTellsAll) {
  const Outcome outcome = train("out");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(lines_of(outcome.out).back(),
              MatchesRegex("test accuracy [01]\\.[0-9]+ \\([0-9]+/53\\)"));
  const auto rows = lines_of(text_of(root_ / "out/train.csv"));
  ASSERT_EQ(rows.size(), 1u + steps);
  EXPECT_THAT(rows[0], HasSubstr("step"));
  for (const char* name : {"epoch", "loss", "accuracy", "images_per_second", "test_accuracy",
                           "test_correct", "test_count"})
    EXPECT_THAT(rows[0], HasSubstr(name));
  EXPECT_EQ(count_of(rows[0], ","), count_of(rows[1], ","));
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(count_of(rows[i], ","), count_of(rows[0], ",")) << rows[i];
    EXPECT_THAT(rows[i], testing::StartsWith(std::to_string(i))) << rows[i];
  }
  EXPECT_THAT(rows.back(), HasSubstr("53"));
  EXPECT_THAT(text_of(root_ / "out/train.log"), HasSubstr("checkpoint of step 40 written"));
  // Those between may come later than asked for, or not: training never waits for a slow disk.
  EXPECT_TRUE(fs::exists(checkpoint("out", 5)));
  EXPECT_TRUE(fs::exists(checkpoint("out", steps)));
}

TEST_F(Train, IsRepeatedByItsRestartOptions) {
  const std::string digest_of_reference = reference();
  ASSERT_EQ(train("first").exit_code, 0);
  const Outcome again = command({"train", (root_ / "first/options_restart.yaml").string(), "-o",
                                 (root_ / "second").string()});
  EXPECT_EQ(again.exit_code, 0) << again.error;
  EXPECT_EQ(digest(root_ / "second"), digest_of_reference);
  EXPECT_EQ(train("other", {"-r", "seed=6"}).exit_code, 0);
  EXPECT_NE(digest(root_ / "other"), digest_of_reference);
}

TEST_F(Train, IsBitwiseIdenticalForAnyPartition) {
  ASSERT_EQ(
      train("partition", {"-r", "parallel.pipeline=4", "-r", "parallel.partition=[1, 1, 1, 1]",
                          "-r", "parallel.data=2", "-r", "parallel.schedule=gpipe", "-r",
                          "parallel.actor_threads=3", "-r", "data.workers=2"})
          .exit_code,
      0);
  EXPECT_EQ(digest(root_ / "partition"), reference());
}

TEST_F(Train, TellsOfInjectedFaultsAndEndsWithTheSameBits) {
  const Outcome outcome = train(
      "faults", {"-r",
                 "faults=[{actor: stage/1, step: 3, micro_batch: 2}, {actor: stage/0, step: 7, "
                 "micro_batch: 1}, {actor: stage/1, step: 39, micro_batch: 0}]"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(count_of(outcome.out + outcome.error, "injected fault in"), 3) << outcome.out;
  EXPECT_THAT(outcome.out + outcome.error, HasSubstr("; replaced after 3 committed steps\n"));
  EXPECT_EQ(digest(root_ / "faults"), reference());
  EXPECT_EQ(lines_of(text_of(root_ / "faults/train.csv")).size(), 1u + steps);
}

TEST_F(Train, TellsOfGradientsThatAreLostWithAReducer) {
  const Outcome outcome =
      train("lost", {"-r", "train.steps=4", "-r", "parallel.aggregation=asynchronous", "-r",
                     "faults=[{actor: reducer/0, step: 2, micro_batch: 0}]"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out + outcome.error,
              AllOf(ContainsRegex("replaced with [0-9]+ other actors after 2 committed steps: the "
                                  "next step begins again\n"),
                    HasSubstr("warning: asynchronous aggregation: the gradients of the last step "
                              "are lost, so the weights will differ")));
}

TEST_F(Train, FailsWithTheRootCauseWhenTheBudgetIsSpent) {
  const Outcome outcome =
      train("budget", {"-r", "restarts.max=1", "-r",
                       "faults=[{actor: stage/1, step: 3, micro_batch: 0}, {actor: stage/1, step: "
                       "3, micro_batch: 1}]"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error,
              HasSubstr("stage/1 failed: injected fault in stage/1 at step 3, micro-batch 0"));
}

TEST_F(Train, EndsOnASignalAndGoesOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    SCOPED_TRACE(signal);
    const std::string output = "signal" + std::to_string(signal);
    EXPECT_EQ(interrupt(output, signal), 75);
    expect_it_goes_on(output);
  }
}

TEST_F(Train, RecordsCommandBeginAndEndInItsLog) {
  ASSERT_EQ(train("log", {"-r", "train.steps=5", "-r", "data.mean=[0.5]"}).exit_code, 0);
  const std::string log = text_of(root_ / "log/train.log");
  EXPECT_THAT(log, ContainsRegex("troupe [0-9.]+ begins: .*troupe train .*options.yaml -o .*log -r "
                                 "train.steps=5 -r 'data.mean=\\[0.5\\]'\n"));
  EXPECT_THAT(log, HasSubstr("5 steps remaining"));
  EXPECT_THAT(log, ContainsRegex(" info [^ :]+: [^\n]+, [0-9]+ cores?\n")) << "the host";
  EXPECT_THAT(log, ContainsRegex(" info libraries: oneDNN [0-9]")) << "and versions";
  EXPECT_THAT(log, ContainsRegex(" info used [0-9.]+ of [0-9]+ cores?; peak memory [1-9]"));
  EXPECT_THAT(log, ContainsRegex("ended: done, 5 steps, [0-9.]+ s\n$"));
  const Outcome failed = train("fails", {"-r", "restarts.max=0", "-r",
                                         "faults=[{actor: stage/1, step: 3, micro_batch: 0}]"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(text_of(root_ / "fails/train.log"),
              ContainsRegex("error failed: stage/1 failed: injected fault[^\n]*\n$"));
}

TEST_F(Train, ResumesWithItsPartitionAndNamesWhatHasChanged) {
  ASSERT_EQ(train("changed", {"-r", "train.steps=5", "-r", "parallel.partition=auto"}).exit_code,
            0);
  const Outcome rest = train("changed", {"--restart", "auto", "-r", "train.steps=7", "-r",
                                         "train.lr=0.011", "-r", "parallel.partition=auto"});
  EXPECT_EQ(rest.exit_code, 0) << rest.error;
  EXPECT_THAT(rest.out,
              ContainsRegex("changed since: train.steps 5 → 7, train.lr [0-9.]+ → 0.011\n"));
  const auto partition = [&](const char* file) {
    std::smatch found;
    const std::string text = text_of(root_ / "changed" / file);
    return std::regex_search(text, found, std::regex("partition: auto  # of this run: .*"))
               ? found.str()
               : "none";
  };
  EXPECT_NE(partition("options_restart.yaml"), "none");
  EXPECT_EQ(partition("options_restart.yaml"), partition("options_restart-1.yaml"));
}

TEST_F(Train, SaysAtOnceWhereItWritesTo) {
  // The script ends when the line is there while the run goes on.
  const std::string out = (root_ / "out.txt").string();
  std::string words = TROUPE_BINARY;
  for (const std::string& word : train_words("at_once", {"-r", "train.epochs=100000"}))
    words += " '" + word + "'";
  const std::string script = words + " > " + out + " & run=$!; until grep -q '^output in ' " + out +
                             "; do kill -0 $run || exit 1; done; kill -9 $run";
  EXPECT_EQ(run_process({"/bin/sh", "-c", script}).exit_code, 0);
}

// As a run leaves it that was stopped, or killed, between the last step of an epoch and the end of
// its evaluation.
void take_evaluation_away(const fs::path& csv, int step) {
  std::string kept;
  for (const std::string& line : lines_of(text_of(csv))) {
    const bool cut = line.starts_with(std::to_string(step) + ",");
    std::size_t end = line.size();
    if (cut)
      for (int column = 0; column < 4; ++column) end = line.rfind(',', end - 1);
    kept += cut ? line.substr(0, end) + ",,,,\n" : line + "\n";
  }
  std::ofstream(csv) << kept;
}

TEST_F(Train, BeginsAgainInAFolderWhereItFailedBeforeItsFirstStep) {
  const auto failing = [&](const char* fault) {
    return train("out", {"-r", fault, "-r", "restarts.max=0"}).exit_code;
  };
  EXPECT_EQ(failing("faults=[{actor: loader, step: 0}]"), 1);
  ASSERT_TRUE(std::filesystem::exists(root_ / "out/options_restart.yaml"));
  EXPECT_EQ(train("out", {}).exit_code, 0);
  const Outcome again = train("out", {});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.error, HasSubstr("out already contains a run"));
}

TEST_F(Train, CountsTheTestSetThatAnEndedEpochLacks) {
  for (const int step : {20, steps}) {
    SCOPED_TRACE(step);
    const std::string output = "cut" + std::to_string(step);
    ASSERT_EQ(train(output, {"-r", "train.steps=" + std::to_string(step)}).exit_code, 0);
    const fs::path csv = root_ / output / "train.csv";
    const std::string whole = lines_of(text_of(csv)).back();
    take_evaluation_away(csv, step);
    ASSERT_NE(lines_of(text_of(csv)).back(), whole);
    const Outcome rest = train(output, {"--restart", "auto"});
    EXPECT_EQ(rest.exit_code, 0) << rest.error;
    EXPECT_THAT(rest.out, HasSubstr("Epoch " + std::to_string(step / 20) + "/2: Loss="));
    const auto rows = lines_of(text_of(csv));
    ASSERT_EQ(rows.size(), 1u + steps);
    EXPECT_EQ(rows[static_cast<std::size_t>(step)], whole);
    EXPECT_EQ(digest(root_ / output), reference());
  }
  const Outcome again = train("cut40", {"--restart", "auto"});
  EXPECT_THAT(again.out, HasSubstr("nothing left to train"));
}

/// Whether a process has taken a signal into its own hands. While it forks, all are held back.
bool holds_back(pid_t process, int signal) {
  for (const std::string& line : lines_of(text_of("/proc/" + std::to_string(process) + "/status")))
    if (line.starts_with("SigBlk:")) {
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      const auto is_blocked = [&](int number) { return (blocked >> (number - 1) & 1) != 0; };
      return is_blocked(signal) && !is_blocked(SIGWINCH);
    }
  return false;
}

TEST_F(Train, EndsAtOnceWhereASignalComesBeforeTheRunBegins) {
  // Measuring the blocks of a network in the plain kernels takes a minute or so.
  const std::vector<std::string> slow{
      "-r", "precision=64-true",      "-r", "model.name=wide_resnet",  "-r", "model.classes=10",
      "-r", "data.shape=[1, 28, 28]", "-r", "parallel.partition=auto", "-r", "train.batch_size=64"};
  EXPECT_EQ(interrupt_when("early", SIGTERM, slow,
                           [](pid_t child) { return holds_back(child, SIGTERM); }),
            75);
  EXPECT_FALSE(fs::exists(root_ / "early")) << "it went on to begin the run";
}

TEST_F(Train, OutlivesAKillAtAnyMoment) {
  EXPECT_EQ(interrupt("killed", SIGKILL), 128 + SIGKILL);
  const int end = expect_it_goes_on("killed");
  EXPECT_EQ(lines_of(text_of(root_ / "killed/train.csv")).size(), 1u + static_cast<unsigned>(end));
}

TEST_F(Train, PassesOverADamagedCheckpoint) {
  ASSERT_EQ(train("damaged", {"-r", "train.steps=20"}).exit_code, 0);
  std::string shard = text_of(checkpoint("damaged", 20) / "stage_00.tensors");
  shard[shard.size() / 2] = static_cast<char>(shard[shard.size() / 2] ^ 0x10);
  std::ofstream(checkpoint("damaged", 20) / "stage_00.tensors", std::ios::binary) << shard;
  const Outcome rest = train("damaged", {"--restart", "auto"});
  EXPECT_EQ(rest.exit_code, 0) << rest.error;
  EXPECT_THAT(rest.error, AllOf(HasSubstr("skipped"), HasSubstr("step_00000020")));
  EXPECT_THAT(rest.out, ContainsRegex("at step ([5-9]|1[0-9]) of 40"));
  EXPECT_EQ(digest(root_ / "damaged"), reference());
}

TEST_F(Train, ExportsWhatItsCheckpointHolds) {
  ASSERT_EQ(train("out").exit_code, 0);
  const std::string file = (root_ / "weights.safetensors").string();
  ASSERT_EQ(command({"export", (root_ / "out").string(), "-o", file}).exit_code, 0);
  EXPECT_EQ(digest(file), digest(root_ / "out"));
  const Outcome of_checkpoint = command({"eval", (root_ / "out").string()});
  const Outcome of_file = command({"eval", file, "--options", (root_ / "options.yaml").string()});
  EXPECT_EQ(of_checkpoint.exit_code, 0) << of_checkpoint.error;
  EXPECT_EQ(of_file.exit_code, 0) << of_file.error;
  EXPECT_EQ(lines_of(of_checkpoint.out).back(), lines_of(of_file.out).back());
  const Outcome started = train("from_file", {"-r", "model.weights=" + file});
  EXPECT_EQ(started.exit_code, 0) << started.error;
}

TEST_F(Train, RunsInDoublePrecision) {
  ASSERT_EQ(train("f64", {"-r", "precision=64-true", "-r", "train.steps=4"}).exit_code, 0);
  ASSERT_EQ(train("f64_one", {"-r", "precision=64-true", "-r", "train.steps=4", "-r",
                              "parallel.pipeline=1", "-r", "parallel.partition=[4]"})
                .exit_code,
            0);
  EXPECT_EQ(digest(root_ / "f64"), digest(root_ / "f64_one"));
  EXPECT_THAT(command({"inspect", (root_ / "f64").string()}).out, HasSubstr("f64"));
}

TEST_F(Train, GoesOnWhenTheDiskIsFull) {
  const fs::path disk = root_ / "disk";
  fs::create_directory(disk);
  if (::mount("troupe_test", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  const Outcome outcome = train("disk/out");
  const auto rows = lines_of(text_of(disk / "out/train.csv"));
  ::umount2(disk.c_str(), MNT_DETACH);
  EXPECT_THAT(outcome.out + outcome.error, HasSubstr("no checkpoint of step 5"));
  EXPECT_THAT(outcome.out + outcome.error, HasSubstr("No space left"));
  EXPECT_EQ(outcome.exit_code, 1);  // its last checkpoint is missing
  ASSERT_EQ(rows.size(), 1u + steps) << "training stopped at the checkpoint";
  for (int step = 1; step <= steps; ++step)
    EXPECT_TRUE(rows[static_cast<std::size_t>(step)].starts_with(std::to_string(step) + ","));
}

}  // namespace
}  // namespace troupe

// One process reports a failure of several processes, once.
#include <signal.h>
#include <sys/mount.h>

#include <fstream>
#include <functional>
#include <memory>

#include "tests/system/world.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST_F(World, RefusesMoreProcessesThanItHasWorkFor) {
  const Outcome ran = train(8, "out");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
  EXPECT_THAT(ran.error, AllOf(HasSubstr("8 processes"), HasSubstr("allows at most 4"),
                               HasSubstr("start 4 processes (--nproc-per-node 4), or give -r "
                                         "parallel.data=4")));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(World, NamesTheProcessThatHasOtherOptions) {
  const std::string other = wrapper("[ \"$RANK\" = 1 ] && exec \"$@\" -r train.lr=0.07");
  const Outcome ran = Background(launch_words(3, Words{other} + train_words("out"))).wait();
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.error,
              ContainsRegex("error: train.lr is 0.05 on rank 0 \\(.*\\), but 0.07 on rank 1"));
  EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

// Programs of one's own have no options that could be compared.
TEST_F(World, NamesTheProcessThatHasAnotherGraph) {
  const std::string other = wrapper("[ \"$RANK\" = 1 ] && exec \"$1\" 3 64 10 0");
  const Words program{TROUPE_SLOW_CONSUMER, "4", "64", "10", "0"};
  const Outcome ran = Background(launch_words(2, Words{other} + program)).wait();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error,
              ContainsRegex("rank 1 on .* has a different graph from rank 0 on .*: "
                            "'edge 0: producer.out → consumer.in, rank 0 to 1, 3 slots' here, "
                            "'edge 0: producer.out → consumer.in, rank 0 to 1, 4 slots' there"));
}

TEST_F(World, TellsOnceWhatEveryProcessMeets) {
  fs::rename(root_ / "options.yaml", root_ / "elsewhere.yaml");
  const Outcome no_file = train(4, "out");
  EXPECT_EQ(no_file.exit_code, 2);
  EXPECT_EQ(count_of(no_file.error, "troupe: error: "), 1) << no_file.error;
  EXPECT_THAT(no_file.error, HasSubstr("options.yaml: cannot be opened"));
  fs::rename(root_ / "elsewhere.yaml", root_ / "options.yaml");
  std::ofstream(root_ / "no_folder") << "\n";
  const Outcome no_folder = train(4, "no_folder/out");
  EXPECT_EQ(no_folder.exit_code, 1);
  EXPECT_EQ(count_of(no_folder.error, "troupe: error: "), 1) << no_folder.error;
  EXPECT_THAT(no_folder.error, HasSubstr("no_folder/out cannot be created"));
}

TEST_F(World, TellsOnceThatAnInterfaceDoesNotExist) {
  const Words absent = with({"parallel.interface=absent0"});
  const Outcome all = train(4, "out", absent);
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_EQ(count_of(all.error, "troupe: error: "), 1) << all.error;
  EXPECT_THAT(all.error, AllOf(ContainsRegex("no network interface 'absent0' on [^;]+; there is"),
                               HasSubstr("set parallel.interface to one of them")));
  const std::string one = wrapper("[ \"$RANK\" = 2 ] && exec \"$@\" -r parallel.interface=absent0");
  const Outcome alone = Background(launch_words(4, Words{one} + train_words("out"))).wait();
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_EQ(count_of(alone.error, "troupe: error: "), 1) << alone.error;
  EXPECT_THAT(alone.error, HasSubstr("no network interface 'absent0' on "));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(World, TellsOnceThatWeightsDoNotFitThePartOfAnotherProcess) {
  ASSERT_EQ(train(2, "out", with({"train.steps=2"})).exit_code, 0);
  const std::string file = (root_ / "w.safetensors").string();
  ASSERT_EQ(run_process({TROUPE_BINARY, "export", (root_ / "out").string(), "-o", file}).exit_code,
            0);
  for (const std::string& weights : {file, (root_ / "out").string()}) {
    SCOPED_TRACE(weights);
    const Outcome ran = train(
        4, "other", partition_of(4, 1) + with({"model.classes=7", "model.weights=" + weights}));
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
    EXPECT_THAT(ran.error,
                AllOf(HasSubstr("the weights belong to another model: 2 of another shape"),
                      HasSubstr("but in the model [7")));
    EXPECT_FALSE(fs::exists(root_ / "other"));
  }
}

// Rank 0 looks: others might find that the folder has one more by then.
TEST_F(World, BeginsWithTheCheckpointThatRankZeroHasFound) {
  ASSERT_EQ(train(2, "out", with({"train.steps=4", "checkpoint.every_steps=2"})).exit_code, 0);
  const fs::path newest = root_ / "out" / "checkpoints" / "step_00000004";
  fs::resize_file(newest / "stage_00.tensors", 100);
  const Outcome ran =
      train(2, "other", with({"train.steps=1", "model.weights=" + (root_ / "out").string()}));
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(count_of(ran.error, "warning: skipped"), 1) << ran.error;
}

TEST_F(World, LeavesNoShardsOfCheckpointsThatTheDiskHasNoRoomFor) {
  const fs::path disk = root_ / "disk";
  fs::create_directory(disk);
  if (::mount("troupe_test", disk.c_str(), "tmpfs", 0, "size=420k") != 0)
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  const Outcome ran = train(4, "disk/out", with({"checkpoint.every_steps=4"}));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(disk / "out" / "checkpoints"))
    left.push_back(entry.path().filename());
  ::umount2(disk.c_str(), MNT_DETACH);
  EXPECT_EQ(ran.exit_code, 1) << ran.error;
  EXPECT_THAT(ran.error, ContainsRegex("No space left[^\n]*\n  try: "));
  EXPECT_THAT(left, ::testing::Each(::testing::Not(::testing::StartsWith("."))));
}

TEST_F(World, SaysWhereOutputIsWhereAProcessWasToldAnotherFolder) {
  const std::string other = wrapper("[ \"$RANK\" = 1 ] && exec \"$1\" \"$2\" \"$3\" -o elsewhere");
  const Outcome ran = Background(launch_words(2, Words{other} + train_words("out"))).wait();
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.error,
              ContainsRegex("rank 1 ignores -o elsewhere; the output is in .*/out, the folder"));
  std::ifstream log(root_ / "out" / "train.log");
  const std::string output{std::istreambuf_iterator<char>(log), {}};
  EXPECT_THAT(output,
              ContainsRegex("2 processes on 1 host \\(.*: 0-1\\), shared memory, started by "
                            "troupe launch"));
  EXPECT_THAT(output, HasSubstr("blocks in 2 stages"));
}

TEST_F(World, TellsWhatOneProcessAloneMeets) {
  const std::string other = wrapper("[ \"$RANK\" = 1 ] && exec \"$1\" train nowhere.yaml");
  const Outcome ran = Background(launch_words(2, Words{other} + train_words("out"))).wait();
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(count_of(ran.error, "troupe: error: nowhere.yaml: cannot be opened"), 1) << ran.error;
  EXPECT_THAT(ran.error, HasSubstr("rank 1 (local rank 1 on"));
}

/// The output where a process never joins. The others have to come within the time that the first
/// of them waits: a machine too busy for that, where others are missed or miss others, gets more.
std::string output_with_missing(const std::string& missing,
                                const std::function<std::string(const Words&)>& run) {
  std::string output;
  const auto is_missed_alone = [&] {
    const int named = count_of(output, missing + " did not join");
    return named > 0 &&
           named == count_of(output, " did not join") + count_of(output, " answered at ");
  };
  for (int seconds = 1; seconds <= 32 && !is_missed_alone(); seconds *= 2)
    output = run(with({"parallel.timeout=" + std::to_string(seconds) + "s"}));
  return output;
}

TEST_F(World, NamesTheProcessThatNeverComes) {
  const std::string late = wrapper("[ \"$RANK\" = 1 ] && exec sleep 200");
  const std::string output = output_with_missing("rank 1 of 3", [&](const Words& patience) {
    const Outcome ran =
        Background(launch_words(3, Words{late} + train_words("out", patience))).wait();
    EXPECT_EQ(ran.exit_code, 1);
    return ran.error;
  });
  EXPECT_THAT(output, ContainsRegex("error: rank 1 of 3 did not join within [0-9]+.*; joined: "));
  EXPECT_EQ(count_of(output, "troupe: error: "), 1) << output;
}

/// Processes that nobody ends when one of them fails, as with srun; rank 0 keeps the coordinator.
class WorldLeftAlone : public World {
 protected:
  using Ranks = std::vector<std::unique_ptr<Background>>;

  std::unique_ptr<Background> rank(int rank, int size, const Words& program) const {
    const auto number = std::to_string(rank), count = std::to_string(size);
    return std::make_unique<Background>(
        Words{"/usr/bin/env", "TROUPE_JOB_FILE=" + (root_ / "job").string(), "RANK=" + number,
              "WORLD_SIZE=" + count, "LOCAL_RANK=" + number, "LOCAL_WORLD_SIZE=" + count} +
        program);
  }
  Ranks start(int size, const Words& program) const {
    Ranks ranks;
    for (int at = 0; at < size; ++at) ranks.push_back(rank(at, size, program));
    return ranks;
  }
  /// What they tell together; each ends with `code`.
  static std::string told_by(const Ranks& ranks, int code) {
    std::string all;
    for (const auto& one : ranks) {
      const Outcome ended = one->wait();
      EXPECT_EQ(ended.exit_code, code) << ended.error;
      all += ended.error;
    }
    return all;
  }
  static void expect_once(const std::string& output, const std::string& error) {
    EXPECT_EQ(count_of(output, "troupe: error: "), 1) << output;
    EXPECT_THAT(output, ContainsRegex("troupe: error: [^\n]*" + error));
  }
};

TEST_F(WorldLeftAlone, TellsOnceThatTheOptionsAreWrong) {
  expect_once(told_by(start(4, {TROUPE_BINARY, "train", (root_ / "no.yaml").string()}), 2),
              "no.yaml: cannot be opened");
  expect_once(told_by(start(6, train_words("out")), 2), "allows at most 4");
}

TEST_F(WorldLeftAlone, TellsOnceWhatOneProcessAloneMeets) {
  for (const int one : {0, 2}) {
    SCOPED_TRACE(one);
    Ranks ranks;
    for (int at = 0; at < 3; ++at)
      ranks.push_back(rank(
          at, 3, at == one ? Words{TROUPE_BINARY, "train", "nowhere.yaml"} : train_words("out")));
    std::string output;
    for (const auto& each : ranks) output += each->wait().error;
    expect_once(output, "nowhere.yaml: cannot be opened");
  }
}

// Without a launcher rank 0 chooses where the others meet.
TEST_F(WorldLeftAlone, TellsOnceThatAnInterfaceDoesNotExist) {
  expect_once(told_by(start(4, train_words("out", with({"parallel.interface=absent0"}))), 2),
              "no network interface 'absent0' on ");
}

TEST_F(WorldLeftAlone, TellsOnceWhoNeverCame) {
  const std::string output = output_with_missing("rank 2 of 4", [&](const Words& patience) {
    Ranks ranks;
    for (const int at : {0, 1, 3}) ranks.push_back(rank(at, 4, train_words("out", patience)));
    return told_by(ranks, 1);
  });
  expect_once(output, "rank 2 of 4 did not join");
}

TEST_F(WorldLeftAlone, TellsOnceWhatEndsTheRun) {
  const Words endless = with({"train.epochs=5000", "restarts.max=0",
                              "faults=[{actor: stage/1/1, step: 3, micro_batch: 4}]"});
  expect_once(told_by(start(4, train_words("out", endless)), 1), "stage/1/1");
}

TEST_F(WorldLeftAlone, TellsOnceThatAProcessWasKilled) {
  const Ranks ranks =
      start(4, train_words("out", with({"train.epochs=5000", "checkpoint.every_steps=5"})));
  ASSERT_TRUE(comes_true([&] { return newest_step("out") >= 5; }));
  ranks[2]->signal(SIGKILL);
  std::string output;
  for (const auto& one : ranks) output += one->wait().error;
  expect_once(output, "rank 2 on .* is lost");
  expect_nothing_is_left();
}

TEST_F(WorldLeftAlone, TellsThatTheProcessThatLeadsWasKilled) {
  const Ranks ranks =
      start(3, train_words("out", with({"train.epochs=5000", "checkpoint.every_steps=5"})));
  ASSERT_TRUE(comes_true([&] { return newest_step("out") >= 5; }));
  ranks[0]->signal(SIGKILL);
  // With it went the coordinator: nobody can be asked who tells.
  for (const int other : {1, 2}) {
    const Outcome ended = ranks[static_cast<std::size_t>(other)]->wait();
    EXPECT_EQ(ended.exit_code, 1) << ended.error;
    expect_once(ended.error, "is lost");
  }
  expect_nothing_is_left();
}

}  // namespace
}  // namespace troupe

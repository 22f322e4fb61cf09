// `troupe train` in several processes: the same weights however many there are, and what their ends
// leave behind.
#include "tests/system/world.h"

#include <signal.h>

namespace troupe {
namespace {

TEST_F(World, GivesTheSameBitsInAnyNumberOfProcesses) {
  struct Case {
    int processes, pipeline, data;
    std::string transport;
    std::string bucket_cap_mb = "25";  ///< the least: a bucket a block
  };
  const std::string expected = reference();
  for (const Case& c : std::vector<Case>{{2, 1, 2, "shm", "0.0001"},
                                         {2, 2, 1, "gloo"},
                                         {2, 4, 4, "auto"},
                                         {3, 4, 4, "shm"},
                                         {4, 1, 4, "gloo", "0.0001"},
                                         {4, 2, 2, "shm"},
                                         {4, 2, 4, "gloo", "0.0001"},
                                         {4, 4, 1, "auto"},
                                         {4, 4, 2, "auto"}}) {
    const std::string name = std::to_string(c.processes) + c.transport +
                             std::to_string(c.pipeline) + std::to_string(c.data);
    SCOPED_TRACE(name);
    const Outcome ran =
        train(c.processes, name,
              cut_in(c.pipeline, c.data) + with({"parallel.transport=" + c.transport,
                                                 "parallel.bucket_cap_mb=" + c.bucket_cap_mb}));
    ASSERT_EQ(ran.exit_code, 0) << ran.error;
    EXPECT_THAT(ran.out, AllOf(HasSubstr(std::to_string(c.processes) + " processes on 1 host"),
                               HasSubstr("/53)")));
    EXPECT_EQ(digest(name), expected);
  }
}

TEST_F(World, GivesTheSameBitsWhereSumsAreAppliedLater) {
  const Words late = with({"parallel.aggregation=asynchronous", "parallel.staleness=2"});
  const std::string expected = reference(late);
  EXPECT_NE(expected, reference());
  const Outcome shm = train(4, "shm", cut_in(2, 2) + late + with({"parallel.transport=shm"}));
  ASSERT_EQ(shm.exit_code, 0) << shm.error;
  EXPECT_EQ(digest("shm"), expected);
  const Outcome gloo = train(
      3, "gloo",
      cut_in(1, 3) + late + with({"parallel.transport=gloo", "parallel.bucket_cap_mb=0.0001"}));
  ASSERT_EQ(gloo.exit_code, 0) << gloo.error;
  EXPECT_EQ(digest("gloo"), expected);
}

TEST_F(World, GivesTheSameBitsInDoublePrecision) {
  const Words exact = with({"precision=f64", "train.steps=4"});
  const Outcome ran = train(4, "out", exact);
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(digest("out"), reference(exact));
}

TEST_F(World, GivesTheSameBitsForAWideResNet) {
  const Words wide = with({"model.name=wide_resnet", "model.widths=[4, 4, 8, 8]",
                           "data.shape=[1, 28, 28]", "train.steps=3", "train.evaluate=false"});
  const Outcome ran = train(4, "out", wide);
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(digest("out"), reference(wide));
}

TEST_F(World, GoesOnInAnotherNumberOfProcessesAndAnotherCut) {
  struct Part {
    int processes, pipeline, data;
  };
  const std::string expected = reference();
  const std::vector<std::pair<Part, Part>> cases{{{4, 2, 2}, {1, 1, 1}},
                                                 {{4, 4, 1}, {2, 1, 2}},
                                                 {{4, 1, 4}, {3, 3, 1}},
                                                 {{1, 1, 1}, {4, 2, 2}},
                                                 {{2, 2, 1}, {4, 4, 2}}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const auto& [before, after] = cases[i];
    const std::string name = "part" + std::to_string(i);
    const Outcome first = train(before.processes, name,
                                cut_in(before.pipeline, before.data) + with({"train.steps=7"}));
    ASSERT_EQ(first.exit_code, 0) << first.error;
    const Outcome rest = train(after.processes, name,
                               cut_in(after.pipeline, after.data) + Words{"--restart", "auto"});
    ASSERT_EQ(rest.exit_code, 0) << rest.error;
    EXPECT_THAT(rest.out, HasSubstr("at step 7 of 16"));
    EXPECT_EQ(digest(name), expected);
  }
}

TEST_F(World, HasNothingToDoWhereAllStepsAreMade) {
  ASSERT_EQ(train(4, "out").exit_code, 0);
  const Outcome again = train(4, "out", {"--restart", "auto"});
  EXPECT_EQ(again.exit_code, 0) << again.error;
  EXPECT_THAT(again.out, HasSubstr("nothing left to train"));
}

TEST_F(World, KeepsTheNewestCheckpointsOfAllProcesses) {
  const Outcome ran = train(4, "out", with({"checkpoint.every_steps=3", "checkpoint.keep=2"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  Words kept;
  for (const auto& entry : fs::directory_iterator(root_ / "out" / "checkpoints"))
    kept.push_back(entry.path().filename().string());
  EXPECT_LE(kept.size(), 2u) << testing::PrintToString(kept);
  EXPECT_EQ(newest_step("out"), steps);
  for (const auto& name : kept) digest("out/checkpoints/" + name);
  EXPECT_EQ(digest("out"), reference());
}

TEST_F(World, SavesAndGoesOnWhenItsLauncherIsStopped) {
  const auto run = begin_long_run();
  run->signal(SIGTERM);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 75) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("stopped after step " + std::to_string(newest_step("out"))));
  expect_nothing_is_left();
  expect_it_goes_on(4);
}

TEST_F(World, ReplacesActorsOfAnyProcessWithTheSameBits) {
  const std::string expected = reference();
  const Words faults{"stage/0/1", "stage/1/0", "stage/1/1"};
  for (const std::string& actor : faults) {
    SCOPED_TRACE(actor);
    std::string name = actor;
    std::ranges::replace(name, '/', '_');
    const Outcome ran = train(4, name,
                              with({"faults=[{actor: " + actor + ", step: 6, micro_batch: 0}]",
                                    "checkpoint.every_steps=5"}));
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    EXPECT_EQ(digest(name), expected);
  }
}

TEST_F(World, EndsAndNamesTheProcessThatWasKilled) {
  const auto run = begin_long_run();
  ::kill(process_of(2), SIGKILL);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.error;
  EXPECT_THAT(ended.error, ContainsRegex("rank 2 \\(local rank 2 on .*signal 9 \\(SIGKILL\\)"));
  EXPECT_EQ(count_of(ended.error, "failed first"), 1) << ended.error;
  EXPECT_LE(count_of(ended.error, "error: "), 1) << ended.error;
  expect_nothing_is_left();
  expect_it_goes_on(2);
}

TEST_F(World, EndsWhenTheProcessThatLeadsIsKilled) {
  const auto run = begin_long_run();
  ::kill(process_of(0), SIGKILL);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.error;
  EXPECT_THAT(ended.error, ContainsRegex("rank 0 \\(local rank 0 on .*signal 9 \\(SIGKILL\\)"));
  expect_nothing_is_left();
  expect_it_goes_on(1);
}

TEST_F(World, RefusesMoreProcessesThanItHasWorkFor) {
  const Outcome ran = train(8, "out");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
  EXPECT_THAT(ran.error, AllOf(HasSubstr("8 processes"), HasSubstr("work for 4"),
                               HasSubstr("start 4 processes, or give -r parallel.data=4")));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(World, NamesTheProcessThatHasOtherOptions) {
  const std::string other = wrapper("[ \"$RANK\" = 1 ] && exec \"$@\" -r train.lr=0.07");
  const Outcome ran = Background(launch_words(3, Words{other} + train_words("out"))).wait();
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.error, ContainsRegex("error: rank 1 on .* has other options than rank 0"));
  EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
  EXPECT_FALSE(fs::exists(root_ / "out"));
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
  EXPECT_THAT(no_folder.error, HasSubstr("no_folder/out cannot be made"));
}

TEST_F(World, TellsWhatOneProcessAloneMeets) {
  const std::string other = wrapper("[ \"$RANK\" = 1 ] && exec \"$1\" train nowhere.yaml");
  const Outcome ran = Background(launch_words(2, Words{other} + train_words("out"))).wait();
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(count_of(ran.error, "troupe: error: nowhere.yaml: cannot be opened"), 1) << ran.error;
  EXPECT_THAT(ran.error, HasSubstr("rank 1 (local rank 1 on"));
}

TEST_F(World, NamesTheProcessThatNeverComes) {
  const std::string late = wrapper("[ \"$RANK\" = 1 ] && exec sleep 60");
  const Words quick = train_words("out", with({"parallel.timeout=2s"}));
  const Outcome ran = Background(launch_words(3, Words{late} + quick)).wait();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error, ContainsRegex("error: rank 1 of 3 did not come within 2.*; came: "));
  EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
}

TEST_F(World, IsStartedByMpirun) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "mpirun (openmpi-bin) is not installed";
  const Outcome ran = Background(Words{"/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe",
                                       "--mca", "oob_tcp_if_include", "lo", "-n", "2"} +
                                 train_words("out"))
                          .wait();
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("2 processes on 1 host, started by openmpi"));
  EXPECT_EQ(digest("out"), reference());
}

TEST_F(World, EndsAfterTheTimeoutWhenAProcessHangs) {
  const auto run = begin_long_run(with({"parallel.timeout=2s"}));
  ::kill(process_of(3), SIGSTOP);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.error;
  EXPECT_THAT(ended.error, ContainsRegex("error: rank 3 on .* is lost: .*2(s|000ms)"));
  expect_nothing_is_left();
}

}  // namespace
}  // namespace troupe

// `troupe train` in several processes: the same weights however many there are.
#include "tests/system/world.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "tests/system/launch.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

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
    const Outcome ran = train(
        c.processes, name,
        partition_of(c.pipeline, c.data) + with({"parallel.transport=" + c.transport,
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
  const Outcome shm = train(4, "shm", partition_of(2, 2) + late + with({"parallel.transport=shm"}));
  ASSERT_EQ(shm.exit_code, 0) << shm.error;
  EXPECT_EQ(digest("shm"), expected);
  const Outcome gloo =
      train(3, "gloo",
            partition_of(1, 3) + late +
                with({"parallel.transport=gloo", "parallel.bucket_cap_mb=0.0001"}));
  ASSERT_EQ(gloo.exit_code, 0) << gloo.error;
  EXPECT_EQ(digest("gloo"), expected);
}

TEST_F(World, GivesTheSameBitsInDoublePrecision) {
  const Words exact = with({"precision=64-true", "train.steps=4"});
  const Outcome ran = train(4, "out", exact);
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(digest("out"), reference(exact));
}

TEST_F(World, GivesTheSameBitsInMixedPrecision) {
  const Words mixed =
      with({"precision=bf16-mixed", "model.name=wide_resnet", "model.widths=[16, 16, 32, 32]",
            "data.shape=[1, 28, 28]", "train.steps=3", "train.evaluate=false"});
  const Outcome ran = train(4, "out", mixed);
  if (ran.error.find("neither AVX-512 BF16") != std::string::npos)
    GTEST_SKIP() << "no instructions for bf16 here";
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(digest("out"), reference(mixed));
}

TEST_F(World, GivesTheSameBitsForAWideResNet) {
  const Words wide = with({"model.name=wide_resnet", "model.widths=[4, 4, 8, 8]",
                           "data.shape=[1, 28, 28]", "train.steps=3", "train.evaluate=false"});
  const Outcome ran = train(4, "out", wide);
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(digest("out"), reference(wide));
}

// oneDNN's own variable makes one process such as one on another processor would be.
TEST_F(World, WarnsWhereItsProcessesAreOfTwoKindsOfProcessors) {
  const std::string limited = "if [ $RANK = 1 ]; then export ONEDNN_MAX_CPU_ISA=AVX2; fi";
  const std::string warning = "rank 1 has another type of processor (";
  const auto ran = [&](const std::string& output, const std::string& script) {
    return Background(launch_words(
                          2, Words{wrapper(script)} + train_words(output, with({"train.steps=2"}))))
        .wait();
  };
  const Outcome alike = ran("alike", "true"), differ = ran("differ", limited);
  EXPECT_EQ(alike.exit_code, 0) << alike.error;
  EXPECT_EQ(differ.exit_code, 0) << differ.error;
  EXPECT_EQ(count_of(alike.error, warning), 0);
  if (content("/proc/cpuinfo").find("avx512vl") == std::string::npos)
    GTEST_SKIP() << "this processor has no AVX-512 to do without";
  EXPECT_EQ(count_of(differ.error, warning), 1) << differ.error;
}

TEST_F(World, ResumesInAnotherNumberOfProcessesWithAnotherPartition) {
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
    const Outcome first =
        train(before.processes, name,
              partition_of(before.pipeline, before.data) + with({"train.steps=7"}));
    ASSERT_EQ(first.exit_code, 0) << first.error;
    const Outcome rest =
        train(after.processes, name,
              partition_of(after.pipeline, after.data) + Words{"--restart", "auto"});
    ASSERT_EQ(rest.exit_code, 0) << rest.error;
    EXPECT_THAT(rest.out, HasSubstr("at step 7 of 16"));
    EXPECT_EQ(digest(name), expected);
  }
}

/// As a run leaves it that ended between its last step and the end of the evaluation after it.
void take_last_evaluation_away(const fs::path& csv) {
  std::ifstream file(csv);
  std::string kept, line;
  for (std::string next; std::getline(file, next); line = next)
    kept += line.empty() ? "" : line + "\n";
  std::size_t end = line.size();
  for (int column = 0; column < 4; ++column) end = line.rfind(',', end - 1);
  std::ofstream(csv) << kept << line.substr(0, end) << ",,,,\n";
}

TEST_F(World, CountsTheTestSetThatAnEndedRunLacks) {
  const auto text_of = [](const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  ASSERT_EQ(train(4, "out").exit_code, 0);
  const fs::path csv = root_ / "out" / "train.csv";
  const std::string whole = text_of(csv);
  for (const int processes : {4, 3, 1}) {
    SCOPED_TRACE(processes);
    take_last_evaluation_away(csv);
    ASSERT_NE(text_of(csv), whole);
    const Outcome rest = train(processes, "out", {"--restart", "auto"});
    EXPECT_EQ(rest.exit_code, 0) << rest.error;
    EXPECT_THAT(rest.out, HasSubstr("/53)"));
    EXPECT_EQ(text_of(csv), whole);
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

TEST_F(World, ReplacesActorsOfAnotherProcessThatAnOptionsFileNames) {
  const std::string expected = reference();
  std::ofstream(root_ / "options.yaml", std::ios::app)
      << "faults: [{actor: reducer/0/1, step: 2, micro_batch: 3}, "
         "{actor: loader/1, step: 5, micro_batch: 4}]\n";
  const Outcome ran = train(2, "out", partition_of(1, 2));
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  for (const char* actor : {"reducer/0/1", "loader/1"})
    EXPECT_THAT(ran.out + ran.error, HasSubstr("injected fault in " + std::string(actor)));
  EXPECT_EQ(digest("out"), expected);
}

TEST_F(World, ReplacesTheWriterOfAnotherProcess) {
  const std::string expected = reference();
  const Outcome ran = train(
      2, "out",
      with({"faults=[{actor: writer/1, step: 4, micro_batch: 1}]", "checkpoint.every_steps=5"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out + ran.error, HasSubstr("injected fault in writer/1"));
  EXPECT_EQ(digest("out"), expected);
}

TEST_F(World, NamesTheActorThatAFaultMayMean) {
  const Outcome ran = train(2, "out", with({"faults=[{actor: reducr/1}]"}));
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(count_of(ran.error, "troupe: error: "), 1) << ran.error;
  EXPECT_THAT(ran.error, AllOf(HasSubstr("faults names the actor reducr/1, which does not exist"),
                               HasSubstr("did you mean reducer/1?")));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(World, RefusesAFaultInAStepThatNeverComes) {
  const Outcome ran = train(2, "out", with({"faults=[{actor: stage/1, step: 4000}]"}));
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.error, HasSubstr("faults names step 4000 of stage/1, but the run has"));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(World, IsStartedByMpirun) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "mpirun (openmpi-bin) is not installed";
  const Outcome ran = Background(Words{"/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe",
                                       "--mca", "oob_tcp_if_include", "lo", "-n", "2"} +
                                 train_words("out"))
                          .wait();
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(
      ran.out,
      ContainsRegex("2 processes on 1 host \\(.*: 0-1\\), shared memory, started by openmpi"));
  EXPECT_EQ(digest("out"), reference());
}

/// Beside the Python that the benchmarks use: no test needs PyTorch, but where it is, it starts us.
fs::path torchrun() {
  const char* python = std::getenv("TROUPE_BENCH_PYTHON");
  return python ? fs::path(python).parent_path() / "torchrun"
                : fs::path(TROUPE_SOURCE_DIR) / "build/bench-venv/bin/torchrun";
}

TEST_F(World, IsStartedByTorchrun) {
  if (!fs::exists(torchrun()))
    GTEST_SKIP() << "./dev bench has not made the environment that has torchrun";
  const Outcome ran = Background(Words{torchrun().string(), "--standalone", "--nproc-per-node", "2",
                                       "--no-python"} +
                                 train_words("out"))
                          .wait();
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(
      ran.out,
      ContainsRegex("2 processes on 1 host \\(.*: 0-1\\), shared memory, started by torchrun"));
  EXPECT_EQ(digest("out"), reference());
}

}  // namespace
}  // namespace troupe

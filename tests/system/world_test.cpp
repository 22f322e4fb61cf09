// `troupe train` in several processes: the same weights however many there are, and what their ends
// leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/system/background.h"
#include "tests/system/process.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Words = std::vector<std::string>;

constexpr auto recipe = R"(
seed: 5
model: {name: mnist_cnn, classes: 4}
data: {name: synthetic, shape: [1, 8, 8], classes: 4, count: 320, mean: [0.5], std: [0.25], augment: [flip]}
train: {epochs: 1, batch_size: 20, micro_batches: 5, lr: 0.05}
parallel: {pipeline: 2, data: 2, timeout: 20s}
checkpoint: {keep: 0}
)";
constexpr int steps = 16;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// -r KEY=VALUE for each.
Words with(const Words& settings) {
  Words words;
  for (const auto& setting : settings) words = words + Words{"-r", setting};
  return words;
}
Words cut_in(int pipeline, int data) {
  return with(
      {"parallel.pipeline=" + std::to_string(pipeline), "parallel.data=" + std::to_string(data)});
}

class World : public testing::Test {
 protected:
  World() {
    std::string pattern = (fs::temp_directory_path() / "troupe_world_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::ofstream(root_ / "options.yaml") << recipe;
    ::setenv("TMPDIR", root_.c_str(), 1);
  }
  ~World() override {
    ::unsetenv("TMPDIR");
    fs::remove_all(root_);
  }

  Words train_words(const std::string& output, const Words& more = {}) const {
    return Words{TROUPE_BINARY, "train", (root_ / "options.yaml").string(), "-o",
                 (root_ / output).string()} +
           more;
  }
  static Words launch_words(int processes, const Words& program) {
    return Words{TROUPE_BINARY,
                 "launch",
                 "--standalone",
                 "--nproc-per-node",
                 std::to_string(processes),
                 "--grace-period",
                 "5",
                 "--"} +
           program;
  }
  Outcome train(int processes, const std::string& output, const Words& more = {}) const {
    const Words words = train_words(output, more);
    return Background(processes == 1 ? words : launch_words(processes, words)).wait();
  }
  /// A program that does `script`, and then as it is told.
  std::string wrapper(const std::string& script) const {
    const fs::path path = root_ / "wrapper.sh";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\nexec \"$@\"\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  std::string digest(const std::string& output) const {
    const Outcome told =
        run_process({TROUPE_BINARY, "inspect", "--digest", (root_ / output).string()});
    EXPECT_EQ(told.exit_code, 0) << told.error;
    return told.out;
  }
  /// Of one process that is not interrupted.
  std::string reference(const Words& more = {}) const {
    const Outcome ran = train(1, "reference", cut_in(1, 1) + more);
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    const std::string digest_of_it = digest("reference");
    fs::remove_all(root_ / "reference");
    return digest_of_it;
  }
  int newest_step(const std::string& output) const {
    int newest = 0;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(root_ / output / "checkpoints", none)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step_") && name.size() == 13)
        newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }

  /// Four processes in the middle of a run that is long enough, with checkpoints.
  std::unique_ptr<Background> begin_long_run(const Words& more = {}) const {
    const Words settings = with({"train.epochs=5000", "checkpoint.every_steps=5"});
    auto run = std::make_unique<Background>(launch_words(4, train_words("out", settings + more)));
    EXPECT_TRUE(comes_true([&] { return newest_step("out") >= 5; }));
    return run;
  }
  pid_t process_of(int rank) const {
    const auto found = processes_with({"RANK=" + std::to_string(rank), (root_ / "out").string()});
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? -1 : found.front();
  }
  void expect_nothing_is_left() const {
    EXPECT_TRUE(comes_true([&] { return processes_with({(root_ / "out").string()}).empty(); }));
  }
  /// The run goes on from its newest checkpoint as if nothing had been.
  void expect_it_goes_on(int processes) const {
    const int reached = newest_step("out");
    const Words end = with({"train.epochs=5000", "train.steps=" + std::to_string(reached + 10)});
    const Outcome rest = train(processes, "out", Words{"--restart", "auto"} + end);
    EXPECT_EQ(rest.exit_code, 0) << rest.error;
    EXPECT_THAT(rest.out, HasSubstr("at step " + std::to_string(reached)));
    EXPECT_EQ(digest("out"), reference(end));
  }

  fs::path root_;
};

TEST_F(World, GivesTheSameBitsInAnyNumberOfProcesses) {
  struct Case {
    int processes, pipeline, data;
    std::string transport;
  };
  const std::string expected = reference();
  for (const Case& c : std::vector<Case>{{2, 1, 2, "shm"},
                                         {2, 2, 1, "gloo"},
                                         {2, 4, 4, "auto"},
                                         {3, 4, 4, "shm"},
                                         {4, 1, 4, "gloo"},
                                         {4, 2, 2, "shm"},
                                         {4, 2, 4, "gloo"},
                                         {4, 4, 1, "auto"},
                                         {4, 4, 2, "auto"}}) {
    const std::string name = std::to_string(c.processes) + c.transport +
                             std::to_string(c.pipeline) + std::to_string(c.data);
    SCOPED_TRACE(name);
    const Outcome ran =
        train(c.processes, name,
              cut_in(c.pipeline, c.data) + with({"parallel.transport=" + c.transport}));
    ASSERT_EQ(ran.exit_code, 0) << ran.error;
    EXPECT_THAT(ran.out, AllOf(HasSubstr(std::to_string(c.processes) + " processes on 1 host"),
                               HasSubstr("/53)")));
    EXPECT_EQ(digest(name), expected);
  }
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

/// Three hosts of the test's own, with the addresses 10.77.0.1 to 10.77.0.3 and names of their own.
class WorldOfHosts : public World {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    for (const char* tool : {"/usr/sbin/ip", "/usr/bin/ss"})
      if (!fs::exists(tool)) GTEST_SKIP() << tool << " (iproute2) is not installed";
    const Outcome up = hosts({"up", name_, "3"});
    if (up.exit_code != 0) GTEST_SKIP() << "no network namespaces here: " << up.error;
  }
  ~WorldOfHosts() override { hosts({"down", name_}); }

  static Outcome hosts(const Words& words) {
    return run_process(Words{"/bin/sh", TROUPE_SOURCE_DIR "/tests/system/hosts/hosts.sh"} + words);
  }
  Words on_host(int host, const Words& words) const {
    const std::string number = std::to_string(host);
    return Words{"/usr/sbin/ip",
                 "netns",
                 "exec",
                 name_ + "-h" + number,
                 "/usr/bin/unshare",
                 "--uts",
                 "/bin/sh",
                 "-c",
                 "hostname \"$0\"; exec \"$@\"",
                 "host" + number} +
           words;
  }
  std::unique_ptr<Background> launch_on(int host, int of, int processes,
                                        const Words& program) const {
    const Words launcher{"/usr/bin/env",
                         "TROUPE_JOB_KEY=" + std::string(64, 'a'),
                         TROUPE_BINARY,
                         "launch",
                         "--nnodes",
                         std::to_string(of),
                         "--node-rank",
                         std::to_string(host - 1),
                         "--nproc-per-node",
                         std::to_string(processes),
                         "--rdzv-endpoint",
                         "10.77.0.1:29400",
                         "--rdzv-id",
                         name_,
                         "--grace-period",
                         "5",
                         "--"};
    return std::make_unique<Background>(on_host(host, launcher + program));
  }
  std::vector<std::unique_ptr<Background>> launch_everywhere(int of, int processes,
                                                             const Words& program) const {
    std::vector<std::unique_ptr<Background>> launchers;
    for (int host = 1; host <= of; ++host)
      launchers.push_back(launch_on(host, of, processes, program));
    return launchers;
  }

  const std::string name_ = "troupe" + std::to_string(::getpid());
};

TEST_F(WorldOfHosts, GivesTheSameBitsAcrossThreeHosts) {
  const auto launchers =
      launch_everywhere(3, 1, train_words("out", with({"parallel.interface=eth0"})));
  for (const auto& launcher : launchers) {
    const Outcome ran = launcher->wait();
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    if (launcher == launchers.front()) {
      EXPECT_THAT(ran.out, HasSubstr("3 processes on 3 hosts, started by troupe launch"));
    }
  }
  EXPECT_EQ(digest("out"), reference());
}

TEST_F(WorldOfHosts, GivesTheSameBitsWhereTwoProcessesShareAHost) {
  const auto launchers = launch_everywhere(2, 2, train_words("out"));
  for (const auto& launcher : launchers) {
    const Outcome ran = launcher->wait();
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    if (launcher == launchers.front()) {
      EXPECT_THAT(ran.out, HasSubstr("4 processes on 2 hosts"));
    }
  }
  EXPECT_EQ(digest("out"), reference());
}

TEST_F(WorldOfHosts, ListensOnTheNamedInterfaceAndNamesAHostThatIsCutOff) {
  const auto launchers = launch_everywhere(
      3, 1,
      train_words("out", with({"train.epochs=5000", "checkpoint.every_steps=5",
                               "parallel.interface=eth0", "parallel.timeout=3s"})));
  ASSERT_TRUE(comes_true([&] { return newest_step("out") >= 5; }));
  const Outcome listening = run_process(on_host(2, {"/usr/bin/ss", "-ltnH"}));
  EXPECT_THAT(listening.out, HasSubstr("10.77.0.2:"));
  EXPECT_EQ(count_of(listening.out, "LISTEN"), count_of(listening.out, " 10.77.0.2:"))
      << listening.out;
  ASSERT_EQ(hosts({"cut", name_, "3"}).exit_code, 0);
  const Outcome first = launchers[0]->wait();
  EXPECT_EQ(first.exit_code, 1) << first.error;
  EXPECT_THAT(first.error, ContainsRegex("error: rank 2 on host3 .*is lost: .*3(s|000ms)"));
  EXPECT_NE(launchers[1]->wait().exit_code, 0);
  EXPECT_NE(launchers[2]->wait().exit_code, 124);
  expect_nothing_is_left();
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

// `troupe launch` on one host.
#include "tests/system/launch.h"

#include <sched.h>
#include <signal.h>

#include <fstream>
#include <set>
#include <sstream>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST_F(Launch, TellsEachProcessItsPlace) {
  const auto ran = run({"--standalone", "--nproc-per-node", "2"},
                       "env | grep -E '^(RANK|WORLD_SIZE|LOCAL_|GROUP_|ROLE_|MASTER_|TORCHELASTIC_|"
                       "TROUPE_)' > env.$RANK");
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  for (const std::string rank : {"0", "1"})
    EXPECT_THAT(
        content(root_ / ("env." + rank)),
        AllOf(HasSubstr("\nRANK=" + rank), HasSubstr("\nLOCAL_RANK=" + rank),
              HasSubstr("WORLD_SIZE=2"), HasSubstr("LOCAL_WORLD_SIZE=2"), HasSubstr("GROUP_RANK=0"),
              HasSubstr("GROUP_WORLD_SIZE=1"), HasSubstr("ROLE_NAME=default"),
              HasSubstr("MASTER_ADDR=127.0.0.1"), ContainsRegex("MASTER_PORT=[1-9][0-9]+"),
              ContainsRegex("TORCHELASTIC_ERROR_FILE=.*/attempt_0/" + rank + "/error.json"),
              HasSubstr("TORCHELASTIC_RESTART_COUNT=0"), HasSubstr("TROUPE_RUN_ID=")));
}

TEST_F(Launch, DividesTheCoresInsteadOfGivingOneThreadToEach) {
  const auto ran = run({"--nproc-per-node", "2"},
                       "echo $OMP_NUM_THREADS $TROUPE_CPUS "
                       "$(grep Cpus_allowed_list /proc/self/status | cut -f2) > cpus.$RANK");
  ASSERT_EQ(ran.exit_code, 0) << ran.error;
  cpu_set_t all;
  ::sched_getaffinity(0, sizeof all, &all);
  std::multiset<int> given;
  for (const std::string rank : {"0", "1"}) {
    std::istringstream line(content(root_ / ("cpus." + rank)));
    std::string threads, cpus;
    line >> threads >> cpus;
    std::istringstream list(cpus);
    int count = 0;
    for (std::string cpu; std::getline(list, cpu, ','); ++count) given.insert(std::stoi(cpu));
    EXPECT_GE(std::stoi(threads), 1);
    EXPECT_LE(std::stoi(threads), count);
  }
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one core cannot be divided";
  EXPECT_EQ(given.size(), static_cast<std::size_t>(CPU_COUNT(&all)));
  EXPECT_EQ(std::set<int>(given.begin(), given.end()).size(), given.size());
}

TEST_F(Launch, LeavesAThreadCountThatIsSet) {
  ::setenv("OMP_NUM_THREADS", "7", 1);
  const auto ran = run({}, "echo threads $OMP_NUM_THREADS");
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(ran.out, "threads 7\n");
}

TEST_F(Launch, AcceptsTorchrunsSpellings) {
  const auto ran =
      troupe({"--nnodes=1:1", "--nproc_per_node=2", "--rdzv_backend=c10d",
              "--rdzv-endpoint=localhost:0", "--rdzv_id=job", "--max_restarts=0", "--no_python",
              "/bin/sh", "-c", "echo $1 $TORCHELASTIC_RUN_ID", "sh", "--nnodes"});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(ran.out, "--nnodes job\n--nnodes job\n");
}

TEST_F(Launch, StartsTroupesOwnVerbs) {
  const auto ran = troupe({"--nproc-per-node", "2", "--", "train", "--help"});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("troupe train"));
  const auto alone = troupe({"--nproc-per-node", "2", "--", "options", "--help"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.error, HasSubstr("troupe options runs in one process"));
}

TEST_F(Launch, TimesMessagesAndTensorsBetweenItsProcesses) {
  const auto ran = troupe({"--standalone", "--nproc-per-node", "3", "--", "doctor", "--network"});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("3 processes on 1 host"), HasSubstr("lo (127.0.0.1)"),
                             ContainsRegex("   0    1 .*shared memory( +[0-9.]+){5,6}"),
                             ContainsRegex("   1    2 .*shared memory"),
                             ContainsRegex("   2    0 .*shared")));
}

TEST_F(Launch, NamesAProcessThatLeavesTheMeasurement) {
  std::ofstream(root_ / "o.yaml") << "data: {name: synthetic}\nparallel: {timeout: 5}\n";
  const auto ran =
      run({"--nproc-per-node", "2"},
          "[ $RANK = 1 ] && exec sleep 60; exec " TROUPE_BINARY " doctor --network o.yaml");
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_THAT(ran.error, ContainsRegex("rank 1.* did not join"));
}

TEST_F(Launch, ReportsTheFirstFailureAndExitsAsIt) {
  // Rank 1 fails while the others sleep; their ends by TERM are consequences.
  const auto ran = run({"--nproc-per-node", "3"}, "[ $RANK = 1 ] && exit 7; exec sleep 60");
  EXPECT_EQ(ran.exit_code, 7);
  EXPECT_THAT(ran.error, ContainsRegex("rank 1 \\(local rank 1 on .*, pid [0-9]+\\) failed first: "
                                       "exit code 7 at 20[0-9-]+ [0-9:]+"));
  EXPECT_THAT(ran.error, Not(HasSubstr("rank 0")));
}

TEST_F(Launch, CountsSignalsAsShellsDo) {
  const auto ran = run({"--nproc-per-node", "2"}, "[ $RANK = 0 ] && kill -9 $$; exec sleep 60");
  EXPECT_EQ(ran.exit_code, 137);
  EXPECT_THAT(ran.error, HasSubstr("signal 9 (SIGKILL)"));
}

TEST_F(Launch, EndsWith75WhenAllWereStopped) {
  EXPECT_EQ(run({"--nproc-per-node", "2"}, "exit 75").exit_code, 75);
  const auto mixed = run({"--nproc-per-node", "2"}, "[ $RANK = 0 ] && exit 75; sleep 0.2; exit 4");
  EXPECT_EQ(mixed.exit_code, 4);
}

TEST_F(Launch, PassesSignalsOn) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    Running launcher(words({"--nproc-per-node", "2"},
                           "trap 'echo got > got.$RANK; exit 75' TERM INT USR1 USR2; "
                           "echo > ready.$RANK; while :; do sleep 0.02; done"));
    for (const char* rank : {"0", "1"}) number_in(std::string("ready.") + rank);
    launcher.signal(number);
    EXPECT_EQ(launcher.wait(), 75) << number;
    for (const char* rank : {"0", "1"}) {
      EXPECT_EQ(content(root_ / (std::string("got.") + rank)), "got\n") << number;
      fs::remove(root_ / (std::string("got.") + rank));
      fs::remove(root_ / (std::string("ready.") + rank));
    }
  }
}

TEST_F(Launch, SendsUserSignalsToTheProcessesAlone) {
  for (const int number : {SIGUSR1, SIGUSR2}) {
    // What a process has started dies of TERM from it, not of the signal from here.
    Running launcher(words({},
                           "sh -c 'echo > child; exec sleep 60' & child=$!; "
                           "trap 'kill $child; wait $child; echo $? > status; exit 0' USR1 USR2; "
                           "until [ -s child ]; do sleep 0.01; done; echo > ready; "
                           "while :; do sleep 0.02; done"));
    number_in("ready");
    launcher.signal(number);
    EXPECT_EQ(launcher.wait(), 0) << number;
    EXPECT_EQ(number_in("status"), 128 + SIGTERM) << number;
    for (const char* name : {"child", "ready", "status"}) fs::remove(root_ / name);
  }
}

TEST_F(Launch, SurvivesTheEndOfTheTerminalUnderNohup) {
  auto command = words({}, "echo > ready; while [ ! -f go ]; do sleep 0.01; done; exit 3");
  command.insert(command.begin(), {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"});
  Running launcher(command);
  number_in("ready");
  launcher.signal(SIGHUP);
  std::ofstream(root_ / "go") << "\n";
  EXPECT_EQ(launcher.wait(), 3);
}

TEST_F(Launch, EndsAsTheSignalWhereProcessesDoNotHandleIt) {
  Running launcher(words({"--nproc-per-node", "2"}, "echo > ready.$RANK; exec sleep 60"));
  for (const char* rank : {"0", "1"}) number_in(std::string("ready.") + rank);
  launcher.signal(SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM);
}

TEST_F(Launch, KillsWhatDoesNotEndInTheGracePeriod) {
  const auto ran = run({"--nproc-per-node", "2", "--grace-period", "0.2"},
                       "[ $RANK = 1 ] && { while [ ! -f deaf ]; do sleep 0.01; done; exit 5; }; "
                       "trap '' TERM; echo $$ > pid; touch deaf; while :; do sleep 0.05; done");
  EXPECT_EQ(ran.exit_code, 5);
  EXPECT_THAT(
      ran.error,
      HasSubstr("1 of 2 processes have not ended after 200 ms: the launcher sends SIGKILL"));
  EXPECT_FALSE(runs(number_in("pid")));
}

TEST_F(Launch, LeavesNoOrphans) {
  // Grandchildren: one in the process's group, one in a session of its own that outlives it.
  const auto ran = run({},
                       "sleep 300 & echo $! > group; "
                       "setsid sh -c 'echo $$ > session; exec sleep 300' & "
                       "while [ ! -s session ]; do sleep 0.01; done");
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_FALSE(runs(number_in("group")));
  EXPECT_FALSE(runs(number_in("session")));
}

TEST_F(Launch, LeavesNoOrphansWhenItIsKilled) {
  Running launcher(words({"--nproc-per-node", "2"},
                         "sleep 300 & echo $! > child.$RANK; echo $$ > self.$RANK; wait"));
  std::vector<int> pids;
  for (const char* name : {"child.0", "self.0", "child.1", "self.1"})
    pids.push_back(number_in(name));
  for (const int pid : pids) EXPECT_TRUE(runs(pid));
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.wait(), 137);
  for (const int pid : pids) EXPECT_TRUE(comes_true([&] { return !runs(pid); })) << pid;
}

TEST_F(Launch, EndsThoughSomebodyHoldsItsPipesOpen) {
  // Outside the launcher's reach only in theory: it adopts and kills it, then reads no further.
  const auto ran = run({"--tee", "3", "--log-dir", "logs"}, "setsid sleep 300 & echo last");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "[default0]:last\n");
}

TEST_F(Launch, StartsAllOrNone) {
  const auto ran = run_process({"/bin/sh", "-c", "ulimit -n 40; exec \"$@\"", "sh", TROUPE_BINARY,
                                "launch", "--nproc-per-node", "60", "--", "/bin/sleep", "300"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error, HasSubstr("ulimit -n"));
}

TEST_F(Launch, RaisesALimitOfOpenFilesThatIsOnlyTheUsualOne) {
  const auto ran = run_process({"/bin/sh", "-c", "ulimit -Sn 40; exec \"$@\"", "sh", TROUPE_BINARY,
                                "launch", "--nproc-per-node", "60", "--", "/bin/true"});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
}

TEST_F(Launch, LeavesNoTemporaryFiles) {
  EXPECT_EQ(run({"--nproc-per-node", "2"}, "true").exit_code, 0);
  EXPECT_EQ(run({"--nproc-per-node", "2"}, "exit 3").exit_code, 3);
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(Launch, NamesTheNearestFlag) {
  for (const std::string flag : {"--nproc-per-nod", "--nproc", "--nproc-for-node"}) {
    const auto ran = troupe({flag, "2", "--", "train", "x.yaml"});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.error, AllOf(HasSubstr("no option " + flag + "\n"),
                                 HasSubstr("did you mean --nproc-per-node?")));
  }
}

TEST_F(Launch, RefusesWhatItCannotDoNamingFlagAndValue) {
  const std::vector<std::vector<std::string>> wrong{{"--nproc-per-node", "0"},
                                                    {"--nproc-per-node", "many"},
                                                    {"--nproc-per-node", "-1"},
                                                    {"--nproc-per-node", "99999"},
                                                    {"--nnodes", "1:2"},
                                                    {"--nnodes", "0"},
                                                    {"--nnodes", "x"},
                                                    {"--nnodes", "2"},
                                                    {"--node-rank", "1"},
                                                    {"--rdzv-backend", "etcd"},
                                                    {"--redirects", "4"},
                                                    {"--tee", "1:1"},
                                                    {"--tee", "x"},
                                                    {"--local-ranks-filter", "1"},
                                                    {"--grace-period", "-1"},
                                                    {"--max-restarts", "-1"},
                                                    {"--master-port", "70000"},
                                                    {"--rdzv-conf", "speed=3"}};
  for (auto flags : wrong) {
    const std::string flag = flags[0], value = flags[1];
    flags.insert(flags.end(), {"--", "/bin/true"});
    const auto ran = troupe(flags);
    EXPECT_EQ(ran.exit_code, 2) << flag << " " << value;
    EXPECT_THAT(ran.error, AllOf(HasSubstr(flag), HasSubstr(value), HasSubstr("  try: ")));
  }
}

TEST_F(Launch, RefusesACommandThatIsNone) {
  EXPECT_THAT(troupe({}).error, HasSubstr("no command to start"));
  EXPECT_THAT(troupe({"--", "tran", "x"}).error, HasSubstr("did you mean train?"));
  EXPECT_THAT(troupe({"--", "trane"}).error, HasSubstr("the verbs to launch are train and doctor"));
  EXPECT_THAT(troupe({"-r", "train.steps=5", "--", "train", "x.yaml"}).error,
              HasSubstr("follow the verb: troupe launch ... -- train FILE -r train.steps=5"));
  std::ofstream(root_ / "own.py") << "print(1)\n";
  EXPECT_THAT(troupe({"own.py"}).error, HasSubstr("python3 own.py"));
  std::ofstream(root_ / "o.yaml") << "\n";
  EXPECT_THAT(troupe({"o.yaml"}).error, HasSubstr("train o.yaml"));
  std::ofstream(root_ / "not_a_program") << "\n";
  fs::permissions(root_ / "not_a_program", fs::perms::owner_all);
  std::ofstream(root_ / "bad") << "#!/nowhere/sh\n";
  fs::permissions(root_ / "bad", fs::perms::owner_all);
  const auto ran = troupe({"--nproc-per-node", "2", "./bad"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error, HasSubstr("cannot start ./bad: No such file"));
}

}  // namespace
}  // namespace troupe

// `troupe launch` from outside, with shells for processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/system/process.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

std::string content(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

/// Waits for a condition that another process brings about; false if it does not for too long.
template <class Condition>
bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Whether a process runs: zombies do not.
bool runs(pid_t pid) {
  const std::string stat = content("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
}

/// A launcher that goes on while the test does something to it.
class Running {
 public:
  explicit Running(std::vector<std::string> words, const std::string& error = "/dev/null") {
    pid_ = ::fork();
    if (pid_ != 0) return;
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::dup2(::open(error.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600), 2);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Running() {
    if (!waited_) ::kill(pid_, SIGKILL), wait();
  }
  void signal(int number) const { ::kill(pid_, number); }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    waited_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  bool waited_ = false;
};

class Launch : public testing::Test {
 protected:
  Launch() {
    fs::create_directories(root_);
    ::setenv("TMPDIR", root_.c_str(), 1);  // a launcher that is killed cannot clear up
  }
  ~Launch() override {
    ::unsetenv("TMPDIR");
    fs::remove_all(root_);
  }

  /// troupe launch FLAGS -- sh -c SCRIPT, in the test's folder.
  std::vector<std::string> words(const std::vector<std::string>& flags,
                                 const std::string& script) const {
    std::vector<std::string> all{TROUPE_BINARY, "launch"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--", "/bin/sh", "-c", "cd '" + root_.string() + "'; " + script});
    return all;
  }
  Outcome run(const std::vector<std::string>& flags, const std::string& script) const {
    return run_process(words(flags, script), root_.string());
  }
  Outcome troupe(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {TROUPE_BINARY, "launch"});
    return run_process(arguments, root_.string());
  }
  /// The number that a process of the test has written to a file, once it is there.
  int number_in(const std::string& name) const {
    EXPECT_TRUE(comes_true([&] { return content(root_ / name).ends_with("\n"); })) << name;
    return std::atoi(content(root_ / name).c_str());
  }

  fs::path root_ = fs::temp_directory_path() / ("troupe-launch-" + std::to_string(::getpid()));
};

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
  EXPECT_THAT(alone.error, HasSubstr("options is the work of one process"));
}

TEST_F(Launch, TeesWholeLinesWithThePrefixOfTheirProcess) {
  const auto ran = run({"--nproc-per-node", "3", "--tee", "3", "--log-dir", "logs"},
                       "for i in $(seq 200); do printf 'a%s' $RANK; printf 'b%s\\n' $i; done; "
                       "echo e$RANK >&2; printf 'no end %s' $RANK");
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  std::vector<std::vector<std::string>> seen(3);
  for (const auto& line : lines(ran.out)) {
    ASSERT_THAT(line, ContainsRegex("^\\[default[0-2]\\]:(a[0-2]b[0-9]+|no end [0-2])$"));
    EXPECT_EQ(line[8], line[11] == 'a' ? line[12] : line.back()) << line;
    seen[static_cast<std::size_t>(line[8] - '0')].push_back(line.substr(11));
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(seen[rank].size(), 201u);
    EXPECT_THAT(seen[rank][199], testing::EndsWith("b200"));
  }
  EXPECT_THAT(ran.error, AllOf(HasSubstr("[default0]:e0\n"), HasSubstr("[default2]:e2\n")));
}

TEST_F(Launch, LaysItsLogFolderOutAsTorchrunDoes) {
  const auto ran =
      run({"--nproc-per-node", "2", "--rdzv-id", "job", "--log-dir", "logs", "-r", "0:1,1:3"},
          "echo out$RANK; echo err$RANK >&2");
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.error, AllOf(HasSubstr("err0"), Not(HasSubstr("err1"))));
  ASSERT_FALSE(fs::is_empty(root_ / "logs"));
  const fs::path job = *fs::directory_iterator(root_ / "logs");
  EXPECT_THAT(job.filename().string(), testing::StartsWith("job_"));
  EXPECT_EQ(content(job / "attempt_0" / "0" / "stdout.log"), "out0\n");
  EXPECT_EQ(content(job / "attempt_0" / "1" / "stdout.log"), "out1\n");
  EXPECT_EQ(content(job / "attempt_0" / "1" / "stderr.log"), "err1\n");
}

TEST_F(Launch, ShowsOnlyTheRanksAskedFor) {
  const auto ran =
      run({"--nproc-per-node", "3", "--local-ranks-filter", "1"}, "echo out$RANK; echo err >&2");
  EXPECT_EQ(ran.out, "out1\n");
  EXPECT_EQ(ran.error, "err\n");
}

TEST_F(Launch, FillsThePrefixTemplateIn) {
  const auto ran = run({"-t", "1", "--log-dir", "logs", "--role", "trainer",
                        "--log-line-prefix-template", "${role_name}/${rank}/${local_rank} "},
                       "echo x");
  EXPECT_EQ(ran.out, "trainer/0/0 x\n");
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

TEST_F(Launch, TellsWhatTheFailingProcessSaid) {
  const auto ran = run({"--nproc-per-node", "2"},
                       "[ $RANK = 1 ] || exec sleep 60; printf '{\"message\": {\"message\": "
                       "\"ValueError: \\\\u001b[2Jno\", \"extraInfo\": {\"py_callstack\": \"line "
                       "1\\\\nline 2\", \"timestamp\": \"1700000000\"}}}' "
                       "> $TORCHELASTIC_ERROR_FILE; exit 1");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error, HasSubstr("  ValueError: ?[2Jno\n  line 1\n  line 2"));
}

TEST_F(Launch, LooksBehindAFailureThatFollowsFromAnother) {
  // Rank 0 sees that its peer is gone before the launcher sees the peer's end.
  const auto ran = run({"--nproc-per-node", "2"},
                       "[ $RANK = 1 ] && { trap '' TERM; touch deaf; sleep 0.3; kill -9 $$; }; "
                       "while [ ! -f deaf ]; do sleep 0.01; done; printf "
                       "'{\"message\": {\"message\": \"rank 1 is lost\", \"extraInfo\": "
                       "{\"kind\": \"peer_lost\"}}}' > $TORCHELASTIC_ERROR_FILE; exit 1");
  EXPECT_EQ(ran.exit_code, 137);
  EXPECT_THAT(ran.error, AllOf(HasSubstr("rank 1 (local rank 1"), Not(HasSubstr("is lost"))));
}

TEST_F(Launch, SurvivesADamagedErrorFile) {
  for (const std::string text : {"", "{", "[]", "{\"message\": 3}", "{\"message\": {}}"}) {
    const auto ran = run({}, "printf '%s' '" + text + "' > $TORCHELASTIC_ERROR_FILE; exit 3");
    EXPECT_EQ(ran.exit_code, 3) << text;
    EXPECT_THAT(ran.error, HasSubstr("exit code 3"));
  }
}

TEST_F(Launch, HearsWhyTroupesOwnProcessesFail) {
  const auto ran = troupe({"--nproc-per-node", "1", "--", "train", "nowhere.yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.error, ContainsRegex("failed first: exit code 2 at .*\n  nowhere.yaml: "));
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
  EXPECT_THAT(ran.error, HasSubstr("1 of 2 processes had not ended after 0.2 s and get SIGKILL"));
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
  EXPECT_THAT(troupe({}).error, HasSubstr("nothing to start"));
  EXPECT_THAT(troupe({"--", "tran", "x"}).error, HasSubstr("did you mean train?"));
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
  EXPECT_THAT(ran.error, HasSubstr("./bad could not be started: No such file"));
}

/// Two launchers of one job, which take themselves for two hosts.
class LaunchHosts : public Launch {
 protected:
  /// Words of one launcher: keys stay in the test's folder.
  std::vector<std::string> host(const std::vector<std::string>& flags, const std::string& script,
                                const std::string& key = "") const {
    std::vector<std::string> all{"/usr/bin/env", "HOME=" + root_.string(), "TROUPE_JOB_KEY=" + key};
    const auto launcher = words({"--rdzv-endpoint", "localhost:" + std::to_string(port_)}, script);
    const bool counted = std::find(flags.begin(), flags.end(), "--nnodes") != flags.end();
    all.insert(all.end(), launcher.begin(), launcher.begin() + 4);
    if (!counted) all.insert(all.end(), {"--nnodes", "2"});
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), launcher.begin() + 4, launcher.end());
    return all;
  }
  std::string error_file(const char* name) const { return (root_ / name).string(); }

  /// Waits until somebody hosts the meeting.
  bool hosted() const {
    return comes_true([&] {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<std::uint16_t>(port_));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const int number = ::socket(AF_INET, SOCK_STREAM, 0);
      const int failed = ::connect(number, reinterpret_cast<sockaddr*>(&address), sizeof address);
      ::close(number);
      return failed == 0;
    });
  }

  /// Apart from what other tests of this machine use at the same time.
  int port_ = 20000 + ::getpid() % 10000;
};

TEST_F(LaunchHosts, MeetAndNumberTheirProcessesHostByHost) {
  const std::string script =
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK > place.$RANK; "
      "echo $MASTER_ADDR $MASTER_PORT $TROUPE_RUN_ID $TROUPE_COORDINATOR $TROUPE_JOB_KEY > "
      "common.$RANK";
  Running one(host({"--node-rank", "1", "--nproc-per-node", "2"}, script), error_file("one"));
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_EQ(one.wait(), 0) << content(root_ / "one");
  EXPECT_EQ(content(root_ / "place.0"), "0 3 0 1 0\n");
  EXPECT_EQ(content(root_ / "place.1"), "1 3 0 2 1\n");
  EXPECT_EQ(content(root_ / "place.2"), "2 3 1 2 1\n");
  EXPECT_THAT(content(root_ / "common.0"),
              ContainsRegex("^127.0.0.1 [0-9]+ none-[0-9a-f]+ tcp://127.0.0.1:[0-9]+ [0-9a-f]+"));
  EXPECT_EQ(content(root_ / "common.0"), content(root_ / "common.2"));
  EXPECT_TRUE(fs::is_empty(root_ / ".troupe" / "jobs"));
}

TEST_F(LaunchHosts, EndTogetherWithTheFirstFailureToldEverywhere) {
  const std::string script = "[ $RANK = 1 ] && exit 9; exec sleep 60";
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  EXPECT_EQ(zero.wait(), 9);
  EXPECT_EQ(one.wait(), 9);
  for (const char* name : {"zero", "one"})
    EXPECT_THAT(content(root_ / name), ContainsRegex("rank 1 .*failed first: exit code 9"));
}

TEST_F(LaunchHosts, EndWhenALauncherIsKilled) {
  const std::string script = "echo $$ > pid.$RANK; exec sleep 60";
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  ASSERT_TRUE(hosted());
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  const int pid = number_in("pid.0");
  number_in("pid.1");
  one.signal(SIGKILL);
  EXPECT_EQ(zero.wait(), 1);
  EXPECT_THAT(content(root_ / "zero"), ContainsRegex("the launcher on .* is lost: "));
  EXPECT_FALSE(runs(pid));
}

TEST_F(LaunchHosts, SayWhoIsMissing) {
  const auto alone = run_process(
      host({"--node-rank", "0", "--rdzv-conf", "join_timeout=1"}, "true"), root_.string());
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.error,
              AllOf(HasSubstr("2 hosts did not meet"), HasSubstr("rank 1 of 2 did not come"),
                    HasSubstr("--rdzv-endpoint on each host")));
}

TEST_F(LaunchHosts, RefuseARankTwiceAndAnotherNumberOfHosts) {
  Running zero(host({"--node-rank", "0"}, "true"), error_file("zero"));
  ASSERT_TRUE(hosted());
  const auto twice = run_process(host({"--node-rank", "0"}, "true"));
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.error, HasSubstr("says it is rank 0, but so does"));
  const auto three = run_process(host({"--node-rank", "1", "--nnodes", "3"}, "true"));
  EXPECT_EQ(three.exit_code, 1);
  EXPECT_THAT(three.error, HasSubstr("expects a world of 3 processes"));
  EXPECT_EQ(run_process(host({"--node-rank", "1"}, "true")).exit_code, 0);
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
}

TEST_F(LaunchHosts, RefuseAnotherRunAndAnotherKey) {
  const std::string key(64, '7'), other(64, '5');
  Running zero(host({"--node-rank", "0", "--rdzv-id", "a"}, "true", key), error_file("zero"));
  ASSERT_TRUE(hosted());
  const auto wrong_run = run_process(
      host({"--node-rank", "1", "--rdzv-id", "b", "--rdzv-conf", "join_timeout=20"}, "true", key));
  EXPECT_EQ(wrong_run.exit_code, 1);
  EXPECT_THAT(wrong_run.error, HasSubstr("another run than 'b'"));
  const auto wrong_key = run_process(host(
      {"--node-rank", "1", "--rdzv-id", "a", "--rdzv-conf", "join_timeout=20"}, "true", other));
  EXPECT_EQ(wrong_key.exit_code, 1);
  EXPECT_THAT(wrong_key.error, HasSubstr("TROUPE_JOB_KEY"));
  EXPECT_THAT(wrong_key.error, AllOf(Not(HasSubstr(key)), Not(HasSubstr(other))));
  // The job that was meant is none the worse.
  EXPECT_EQ(run_process(host({"--node-rank", "1", "--rdzv-id", "a"}, "true", key)).exit_code, 0);
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
}

TEST_F(LaunchHosts, CanBeInterruptedWhileTheyWait) {
  Running zero(host({"--node-rank", "0"}, "true"), error_file("zero"));
  ASSERT_TRUE(hosted());
  zero.signal(SIGTERM);
  EXPECT_EQ(zero.wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace troupe

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/command.h"
#include "apps/launch/launch_options.h"
#include "apps/launch/outcome.h"
#include "apps/launch/output.h"
#include "apps/launch/process_environment.h"
#include "runtime/world/error_file.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LaunchStreams, AreForAllOrRankByRank) {
  EXPECT_THAT(streams_of("--tee", "3", 2), ElementsAre(both_streams, both_streams));
  EXPECT_THAT(streams_of("--tee", "0:1,1:2", 3),
              ElementsAre(standard_output, standard_error, no_streams));
  for (const char* text : {"", "4", "0:4", "2:1", "0:", ":1", "0:1,", "x"})
    EXPECT_THROW(streams_of("--tee", text, 2), Error) << text;
}

TEST(LaunchEndpoint, HasTorchrunsPortUnlessItIsNamed) {
  EXPECT_EQ(endpoint_of("node1").port, 29400);
  EXPECT_EQ(endpoint_of("node1:5").port, 5);
  EXPECT_EQ(endpoint_of("[fe80::1]:77").host, "fe80::1");
  EXPECT_EQ(endpoint_of("[fe80::1]:77").port, 77);
  EXPECT_EQ(endpoint_of("[fe80::1]").port, 29400);
  for (const char* text : {"", ":1", "h:", "h:0", "h:65536", "h:x", "[::1", "[]:1", "a:1:2"})
    EXPECT_THROW(endpoint_of(text), Error) << text;
}

TEST(LaunchOptions, KeepEachFlag) {
  LaunchFlags flags;
  flags.nnodes = "2";
  flags.node_rank = 1;
  flags.rdzv_endpoint = "node1:5000";
  flags.rdzv_conf = "join_timeout=7";
  flags.nproc_per_node = "3";
  flags.local_ranks_filter = "0,2";
  flags.grace_period = 1.5;
  flags.command = {"/bin/true", "--nnodes"};
  const auto options = check(flags);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.processes, 3);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.endpoint->host, "node1");
  EXPECT_EQ(options.join_timeout, std::chrono::seconds(7));
  EXPECT_EQ(options.grace_period, std::chrono::milliseconds(1500));
  EXPECT_THAT(options.shown, ElementsAre(true, false, true));
  EXPECT_THAT(options.program.words, ElementsAre("/bin/true", "--nnodes"));
}

TEST(LaunchOptions, CountTheGpusThatProgramsWouldSee) {
  LaunchFlags flags;
  flags.command = {"/bin/true"};
  flags.nproc_per_node = "gpu";
  ::setenv("CUDA_VISIBLE_DEVICES", "0,GPU-8932f937,2", 1);
  EXPECT_EQ(check(flags).processes, 3);
  ::setenv("CUDA_VISIBLE_DEVICES", "1,-1,2", 1);
  EXPECT_EQ(check(flags).processes, 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_THROW(check(flags), Error);
  flags.nproc_per_node = "auto";
  EXPECT_GE(check(flags).processes, 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(LaunchOptions, MeetAtTheMasterWithoutAnEndpoint) {
  LaunchFlags flags;
  flags.nnodes = "2";
  flags.master_addr = "node1";
  flags.master_port = 29500;
  flags.command = {"/bin/true"};
  const auto options = check(flags);
  EXPECT_EQ(options.endpoint->host, "node1");
  EXPECT_EQ(options.endpoint->port, 29500);
  // The port is the launchers' then: the processes need one of their own.
  EXPECT_EQ(options.master_port, 0);
}

TEST(LaunchOptions, AreOfThisHostAloneWhereItStandsAlone) {
  LaunchFlags flags;
  flags.standalone = true;
  flags.nnodes = "2:4";
  flags.node_rank = 1;
  flags.rdzv_endpoint = "node1:5000";
  flags.command = {"/bin/true"};
  const auto options = check(flags);
  EXPECT_EQ(options.nodes, 1);
  EXPECT_FALSE(options.node_rank);
  EXPECT_FALSE(options.endpoint);
}

TEST(LaunchEnvironment, IsReadBackAsTheWorldItDescribes) {
  LaunchOptions options;
  options.processes = 2;
  options.run_id = "job";
  Place place{.node = 1,
              .nodes = 2,
              .first_rank = 3,
              .size = 5,
              .host = "b",
              .run_id = "job-77",
              .coordinator = "tcp://a:1",
              .job_key = "k",
              .master_address = "a",
              .master_port = 2};
  const auto variables =
      process_environment({{"OMP_NUM_THREADS", "9"}, {"KEPT", "x=y"}, {"RANK", "old"}}, options,
                          place, 1, {{4, 5}, 2, 8}, "/e.json");
  Environment environment({});
  for (const auto& [name, value] : variables) environment.set(name, value);
  const auto world = world_from_environment(environment).value();
  EXPECT_EQ(world.launcher, "troupe launch");
  EXPECT_EQ(world.rank, 4);
  EXPECT_EQ(world.size, 5);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.node, 1);
  EXPECT_EQ(world.nodes, 2);
  EXPECT_EQ(world.master_address, "a");
  EXPECT_EQ(world.run_id, "job-77-0");
  EXPECT_EQ(environment.get("OMP_NUM_THREADS"), "9");
  EXPECT_EQ(environment.get("TROUPE_CPUS"), "4,5");
  EXPECT_EQ(environment.get("TROUPE_NODE_CPUS"), "8");
  EXPECT_EQ(environment.get("TROUPE_COORDINATOR"), "tcp://a:1");
  EXPECT_EQ(environment.get("TROUPE_JOB_KEY"), "k");
  EXPECT_EQ(environment.get("KEPT"), "x=y");
  const auto without = process_environment({}, options, place, 1, {{4, 5}, 2, 8}, "/e.json");
  EXPECT_EQ(without.at("OMP_NUM_THREADS"), "2");
}

Failure ended(int rank, Ending ending) {
  Failure failure;
  failure.rank = rank;
  failure.ending = ending;
  return failure;
}

TEST(LaunchOutcome, IsTheFirstFailures) {
  Outcome outcome;
  EXPECT_EQ(outcome.ended(ended(0, {})), Outcome::Next::wait);
  EXPECT_EQ(outcome.ended(ended(2, {.code = 3})), Outcome::Next::end_others);
  outcome.ending_all();
  EXPECT_EQ(outcome.ended(ended(1, {.signal = SIGTERM})), Outcome::Next::wait);
  EXPECT_EQ(outcome.exit_code(), 3);
  EXPECT_EQ(outcome.first()->rank, 2);
}

TEST(LaunchOutcome, IsNotAFailureThatFollowsFromAnother) {
  Outcome outcome;
  Failure follower = ended(0, {.code = 1});
  follower.told = ToldError{.message = "rank 1 is lost", .details = "", .is_consequence = true};
  EXPECT_EQ(outcome.ended(follower), Outcome::Next::end_others);
  outcome.ending_all();
  EXPECT_EQ(outcome.exit_code(), 1);
  EXPECT_EQ(outcome.ended(ended(2, {.signal = SIGTERM})), Outcome::Next::wait);
  EXPECT_EQ(outcome.first()->rank, 0);
  EXPECT_EQ(outcome.ended(failure_from(to_message(follower))), Outcome::Next::wait);
  EXPECT_EQ(outcome.ended(ended(1, {.signal = SIGKILL})), Outcome::Next::wait);
  EXPECT_EQ(outcome.first()->rank, 1);
  EXPECT_EQ(outcome.exit_code(), 137);
  EXPECT_EQ(outcome.ended(ended(3, {.code = 4})), Outcome::Next::wait);
  EXPECT_EQ(outcome.first()->rank, 1);
}

/// A failure that only says that somebody else is lost, and a launcher that is.
struct LostHost {
  Failure follower = ended(0, {.code = 1}), launcher;

  LostHost() {
    follower.told = ToldError{.message = "rank 1 is lost", .details = "", .is_consequence = true};
    launcher.host = "the launcher on node2";
  }
};

TEST(LaunchOutcome, IsALauncherThatIsLostWithItsProcesses) {
  const LostHost lost;
  Outcome outcome;
  outcome.ended(lost.follower);
  EXPECT_EQ(outcome.ended(lost.launcher), Outcome::Next::wait);
  EXPECT_EQ(outcome.first()->host, "the launcher on node2");
}

// Which has given up waiting, or ended after its processes.
TEST(LaunchOutcome, IsNoLauncherThatIsLostAfterTheEnd) {
  const LostHost lost;
  Outcome outcome;
  outcome.ended(lost.follower);
  outcome.own_have_ended();
  EXPECT_EQ(outcome.ended(lost.launcher), Outcome::Next::wait);
  EXPECT_EQ(outcome.first()->rank, 0);
  EXPECT_EQ(outcome.ended(ended(1, {.signal = SIGKILL})), Outcome::Next::wait);
  EXPECT_EQ(outcome.first()->rank, 1);
}

TEST(LaunchOutcome, IsNotWhatTheLauncherKills) {
  Outcome outcome;
  Failure follower = ended(0, {.code = 1});
  follower.told = ToldError{.message = "rank 1 is lost", .details = "", .is_consequence = true};
  outcome.ended(follower);
  outcome.ending_all();
  outcome.killing_all();
  outcome.ended(ended(1, {.signal = SIGKILL}));
  EXPECT_EQ(outcome.first()->rank, 0);
}

TEST(LaunchOutcome, Is75OnlyIfNobodyFails) {
  Outcome outcome;
  EXPECT_EQ(outcome.ended(ended(0, {.code = 75})), Outcome::Next::wait);
  EXPECT_EQ(outcome.ended(ended(1, {})), Outcome::Next::wait);
  EXPECT_EQ(outcome.exit_code(), 75);
  EXPECT_EQ(outcome.ended(ended(2, {.signal = SIGSEGV})), Outcome::Next::end_others);
  EXPECT_EQ(outcome.exit_code(), 128 + SIGSEGV);
}

TEST(LaunchOutcome, IsTheSignalThatWasPassedOn) {
  Outcome outcome;
  outcome.stop_asked(SIGINT);
  EXPECT_EQ(outcome.ended(ended(0, {.signal = SIGINT})), Outcome::Next::wait);
  EXPECT_EQ(outcome.ended(ended(1, {.code = 128 + SIGINT})), Outcome::Next::wait);
  EXPECT_EQ(outcome.exit_code(), 128 + SIGINT);
  EXPECT_EQ(outcome.ended(ended(2, {.signal = SIGKILL})), Outcome::Next::end_others);
  EXPECT_EQ(outcome.exit_code(), 137);
}

TEST(LaunchOutcome, IsAFailureWhenAHostIsLost) {
  Outcome outcome;
  Failure lost;
  lost.host = "node2";
  lost.reason = "no sign of life for 30s";
  EXPECT_EQ(outcome.ended(lost), Outcome::Next::end_others);
  EXPECT_EQ(outcome.exit_code(), exit_failed);
  EXPECT_THAT(outcome.first()->text(), HasSubstr("node2 is lost: no sign of life"));
}

TEST(LaunchFailure, TravelsBetweenLaunchers) {
  Failure failure = ended(3, {.signal = SIGBUS});
  failure.host = "node2";
  failure.local_rank = 1;
  failure.told = ToldError{.message = "it \xff broke", .details = "here", .time = 0};
  failure.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1700000000123));
  const auto copy = failure_from(to_message(failure));
  EXPECT_EQ(copy.rank, 3);
  EXPECT_EQ(copy.ending.signal, SIGBUS);
  EXPECT_EQ(copy.time, failure.time);
  EXPECT_THAT(copy.text(), HasSubstr("rank 3 (local rank 1 on node2"));
  EXPECT_THAT(copy.text(), HasSubstr("signal 7 (SIGBUS)"));
  for (const char* message : {"", "{", "{}", "[1]", "{\"rank\": \"x\"}"})
    EXPECT_THROW(failure_from(message), Error) << message;
}

TEST(LaunchPrefix, FillsEveryMacroIn) {
  EXPECT_EQ(prefix_of("${a}-${b}${a}:${c}", {{"a", "1"}, {"b", "${a}"}}), "1-${a}1:${c}");
}

class LaunchOutput : public testing::Test {
 protected:
  LaunchOutput() {
    std::string name = testing::TempDir() + "output-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    console_ = new_file(folder_ / "console");
  }
  ~LaunchOutput() override { std::filesystem::remove_all(folder_); }

  static void write(const Descriptor& to, const std::string& text) {
    ASSERT_EQ(::write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string content(const char* name) const {
    std::ifstream stream(folder_ / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::filesystem::path folder_;
  Descriptor console_;
};

TEST_F(LaunchOutput, KeepsLinesOfSeveralWritersApart) {
  OutputPump pump;
  std::vector<std::jthread> writers;
  for (const char* name : {"a", "b", "c"})
    writers.emplace_back([name, end = pump.add(folder_ / name, console_.get(), "<")] {
      for (int i = 0; i < 300; ++i)
        for (const char* part : {name, name, "\n"}) write(end, part);
    });
  writers.clear();
  pump.finish();
  std::istringstream lines(content("console"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_TRUE(line == "<aa" || line == "<bb" || line == "<cc") << line;
  EXPECT_EQ(count, 900);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(content(name).size(), 900u);
}

TEST_F(LaunchOutput, EndsThoughAWriterHoldsItsEndOpen) {
  OutputPump pump;
  const Descriptor end = pump.add(folder_ / "file", console_.get(), "> ");
  write(end, "one\nno end");
  pump.finish();
  EXPECT_EQ(content("file"), "one\nno end");
  EXPECT_EQ(content("console"), "> one\n> no end\n");
}

// What a process wrote at its end, while the copying thread waited for its turn on a busy machine.
TEST_F(LaunchOutput, KeepsAllThatAPipeHoldsAtTheEnd) {
  const std::string text(60'000, 'y');
  for (int round = 0; round < 20; ++round) {
    const std::string name = "file" + std::to_string(round);
    OutputPump pump;
    const Descriptor end = pump.add(folder_ / name, console_.get(), "");
    write(end, text);
    pump.finish();
    EXPECT_EQ(content(name.c_str()), text);
  }
}

TEST_F(LaunchOutput, BreaksLinesThatNeverEnd) {
  OutputPump pump;
  const std::string text(200'000, '\xff');
  write(pump.add(folder_ / "file", console_.get(), ""), text);
  pump.finish();
  EXPECT_EQ(content("file"), text);
  std::string console = content("console");
  EXPECT_GE(std::count(console.begin(), console.end(), '\n'), 2);
  std::erase(console, '\n');
  EXPECT_EQ(console, text);
}

TEST_F(LaunchOutput, GoesOnWhereTheDiskIsFullAndSaysSoOnce) {
  testing::internal::CaptureStderr();
  {
    OutputPump pump;
    const Descriptor end = pump.add("/dev/full", console_.get(), "> ");
    write(end, "one\n");
    while (content("console").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    write(end, "two\n");
    pump.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "troupe launch: /dev/full cannot be written: No space left on device; what follows is "
            "not in it\n");
  EXPECT_EQ(content("console"), "> one\n> two\n");
}

TEST_F(LaunchOutput, IsRefusedWhereNoFileCanBeMade) {
  OutputPump pump;
  EXPECT_THROW(pump.add("/proc/no/file", console_.get(), ""), Error);
}

class ErrorFile : public testing::Test {
 protected:
  ErrorFile() {
    std::string name = testing::TempDir() + "error-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ErrorFile() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(ErrorFile, KeepsWhatWasWritten) {
  const auto file = folder_ / "error.json";
  ASSERT_TRUE(write_error_file(
      file, {.message = "a \"b\"\n\xff", .details = "c", .time = 17, .is_consequence = true}));
  const auto told = read_error_file(file).value();
  EXPECT_THAT(told.message, HasSubstr("a \"b\"\n"));
  EXPECT_EQ(told.details, "c");
  EXPECT_EQ(told.time, 17);
  EXPECT_TRUE(told.is_consequence);
  EXPECT_FALSE(write_error_file(folder_ / "no" / "error.json", {}));
}

TEST_F(ErrorFile, SendsTheTerminalNoControlCharacters) {
  const auto file = folder_ / "error.json";
  std::ofstream(file)
      << R"({"message": "a\u001b[31m\u009b31m\u0080\u009f\u007fb\tc\n\u00a0\u00e9"})";
  EXPECT_EQ(read_error_file(file)->message, "a?[31m?31m???b\tc\n\u00a0\u00e9");
}

TEST_F(ErrorFile, ReadsThePlainFormAndRefusesDamage) {
  const auto file = folder_ / "error.json";
  EXPECT_FALSE(read_error_file(file));
  std::ofstream(file) << R"({"message": "plain"})";
  EXPECT_EQ(read_error_file(file)->message, "plain");
  for (const char* text : {"{", "null", "[]", R"({"message": []})",
                           R"({"message": {"message": 1e})", R"({"message": {"extraInfo": 3}})"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_FALSE(read_error_file(file)) << text;
  }
  std::ofstream(file, std::ios::trunc) << R"({"message": ")" << std::string(2 << 20, 'x') << "\"}";
  EXPECT_FALSE(read_error_file(file));
}

}  // namespace
}  // namespace troupe

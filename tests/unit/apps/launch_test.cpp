#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "apps/command.h"
#include "apps/launch/launch_options.h"
#include "apps/launch/outcome.h"
#include "apps/launch/process_environment.h"
#include "runtime/print.h"
#include "runtime/world/error_file.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(LaunchOutputs, AreForAllOrRankByRank) {
  EXPECT_THAT(outputs_of("--tee", "3", 2), ElementsAre(both_outputs, both_outputs));
  EXPECT_THAT(outputs_of("--tee", "0:1,1:2", 3),
              ElementsAre(standard_output, standard_error, no_output));
  for (const char* text : {"", "4", "0:4", "2:1", "0:", ":1", "0:1,", "x"})
    EXPECT_THROW(outputs_of("--tee", text, 2), Error) << text;
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
  EXPECT_EQ(world.launcher, fmt::format("{} launch", program_name()));
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
  follower.reported =
      ReportedError{.message = "rank 1 is lost", .details = "", .is_consequence = true};
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

TEST(LaunchOutcome, IsToldByAnotherWhereTheFirstCouldNot) {
  Failure follower = ended(2, {.code = 1});
  follower.host = "node2";
  follower.reported = ReportedError{
      .message = "rank 0 is lost", .details = "try: --restart out", .is_consequence = true};
  Outcome outcome;
  outcome.ended(ended(0, {.signal = SIGKILL}));
  EXPECT_THAT(outcome.report(), Not(HasSubstr("found")));
  outcome.ended(failure_from(to_message(follower)));
  EXPECT_THAT(outcome.report(),
              EndsWith("often because memory ran out\n  rank 2 on node2 reported:\n"
                       "  rank 0 is lost\n  try: --restart out"));
  // Who reads that here need not read it again.
  follower.reported->is_printed = true;
  outcome.ended(follower);
  EXPECT_THAT(outcome.report(), Not(HasSubstr("found")));
}

TEST(LaunchOutcome, NeedsNoOtherWhereTheFirstHasSaidWhy) {
  Failure follower = ended(2, {.code = 1}), first = ended(0, {.code = 3});
  follower.reported = ReportedError{.message = "rank 0 is lost", .is_consequence = true};
  first.reported = ReportedError{.message = "it broke"};
  Outcome outcome;
  outcome.ended(follower);
  outcome.ended(first);
  EXPECT_THAT(outcome.report(), EndsWith("\n  it broke"));
  first.reported->is_printed = true;
  EXPECT_THAT(first.text(), EndsWith("; its error is above"));
  // What one host prints, the others' users have not seen.
  EXPECT_THAT(failure_from(to_message(first)).text(), EndsWith("\n  it broke"));
}

/// A failure that only says that somebody else is lost, and a launcher that is.
struct LostHost {
  Failure follower = ended(0, {.code = 1}), launcher;

  LostHost() {
    follower.reported =
        ReportedError{.message = "rank 1 is lost", .details = "", .is_consequence = true};
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
  follower.reported =
      ReportedError{.message = "rank 1 is lost", .details = "", .is_consequence = true};
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
  lost.reason = "no heartbeat for 30 s";
  EXPECT_EQ(outcome.ended(lost), Outcome::Next::end_others);
  EXPECT_EQ(outcome.exit_code(), exit_failed);
  EXPECT_THAT(outcome.first()->text(), HasSubstr("node2 is lost: no heartbeat"));
}

TEST(LaunchFailure, TravelsBetweenLaunchers) {
  Failure failure = ended(3, {.signal = SIGBUS});
  failure.host = "node2";
  failure.local_rank = 1;
  failure.reported = ReportedError{.message = "it \xff broke", .details = "here", .time = 0};
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

}  // namespace
}  // namespace troupe

#include "runtime/flow/run_leader.h"

#include <gmock/gmock.h>

#include <map>

#include "workers.h"

namespace troupe {
namespace {

using testing::Counter;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Supervisor::Clock::time_point now{};

/// An actor that votes, so that there are steps.
class Voter final : public Actor {
 public:
  Input<int> in{this, "in"};
  bool votes() const override { return true; }
  ActionLabel act() override { return {}; }
};

class Writer final : public Actor {
 public:
  Input<int> in{this, "in"};
  bool takes_snapshots() const override { return true; }
  bool outlives_steps() const override { return true; }
  ActionLabel act() override { return {}; }
};

/// counter (process 0) → voter (1) and another pair (1, 2), under a lead whose orders are kept.
class RunLeaderTest : public ::testing::Test {
 protected:
  RunLeaderTest() {
    for (const std::uint32_t pair : {0u, 1u}) {
      const auto counter = graph_.add<Counter>(pair ? "counter/1" : "counter/0", 9u);
      const auto voter = graph_.add<Voter>(pair ? "voter/1" : "voter/0");
      graph_.connect(counter, &Counter::out, voter, &Voter::in);
      graph_.place(counter, pair);
      graph_.place(voter, pair + 1);
    }
    options_.processes = 3;
    options_.steps.count = 2;
    placement_.emplace(graph_, 0, 3);
    leader_.emplace(graph_, *placement_, options_, 0,
                    [this](const RunMessage& order) { orders_.push_back(order); });
  }

  /// A leader of a run that is resumed after `first` steps.
  void begin_after(std::uint32_t first) {
    orders_.clear();
    options_.steps.first = first;
    leader_.emplace(graph_, *placement_, options_, 0,
                    [this](const RunMessage& order) { orders_.push_back(order); });
    leader_->begin();
  }
  void receive(std::uint32_t process, const RunMessage& message) {
    leader_->receive(process, message, now);
  }
  void all_done(ReplacementPhase phase, std::uint32_t incarnation) {
    for (const std::uint32_t process : {2u, 0u, 1u})
      receive(process, PhaseDone{phase, incarnation});
  }
  /// The newest order, which is a T.
  template <class T>
  T newest() {
    return std::get<T>(orders_.back());
  }

  static constexpr std::uint32_t counter = 0, voter = 1, other_counter = 2, other_voter = 3;
  Graph graph_;
  RunOptions options_;
  std::optional<Placement> placement_;
  std::optional<RunLeader> leader_;
  std::vector<RunMessage> orders_;
};

TEST_F(RunLeaderTest, CommitsWhenVotesFromAllProcessesAreIn) {
  receive(1, Vote{voter, 0, 0});
  EXPECT_TRUE(orders_.empty());
  receive(2, Vote{other_voter, 0, 0});
  EXPECT_EQ(newest<Commit>().step, 0u);
}

TEST(RunLeaderOfAWriter, CommitsWhenTheWriterIsFreeIfNoSnapshotMayBeLate) {
  Graph graph;
  graph.connect(graph.add<Counter>("counter/0", 9u), &Counter::out, graph.add<Voter>("voter"),
                &Voter::in);
  graph.connect(graph.add<Counter>("counter/1", 9u), &Counter::out, graph.add<Writer>("writer"),
                &Writer::in);
  std::map<std::string, std::uint32_t> actors;
  for (std::size_t i = 0; i < graph.actors().size(); ++i)
    actors[graph.actors()[i].name] = static_cast<std::uint32_t>(i);
  const std::uint32_t voter = actors["voter"], writer = actors["writer"];
  RunOptions options;
  options.steps = {.count = 9, .exact_snapshot_every = 1};
  const Placement placement(graph, 0, 1);
  std::vector<RunMessage> orders;
  RunLeader leader(graph, placement, options, 0,
                   [&](const RunMessage& order) { orders.push_back(order); });

  leader.receive(0, Vote{voter, 0, 0}, now);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_TRUE(std::get<Commit>(orders.back()).snapshot);
  leader.receive(0, Vote{voter, 0, 1}, now);
  EXPECT_EQ(orders.size(), 1u) << "the writer has not said that it is done";
  EXPECT_EQ(leader.overdue_votes(false), "");
  EXPECT_THAT(leader.overdue_votes(false), StartsWith("step 1 waits until the checkpoint before"));
  leader.receive(0, ActorStatus{.actor = writer, .accepts_snapshot = true}, now);
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(std::get<Commit>(orders.back()).step, 1u);

  leader.receive(0, Vote{voter, 0, 2}, now);
  EXPECT_EQ(orders.size(), 2u);
  leader.receive(0, ActorFailed{writer, 0, "disk"}, now);
  for (const auto phase :
       {ReplacementPhase::prepare, ReplacementPhase::rewire, ReplacementPhase::start})
    leader.receive(0, PhaseDone{phase, 1}, now);
  EXPECT_EQ(std::get<Commit>(orders.back()).step, 2u) << "its replacement is free";

  leader.receive(0, Vote{voter, 0, 3}, now);
  leader.receive(0, RunFailed{Error(ErrorCode::io, "disk", "free some space")}, now);
  const std::size_t before = orders.size();
  leader.receive(0, ActorStatus{.actor = writer, .accepts_snapshot = true}, now);
  EXPECT_EQ(orders.size(), before) << "the run ends";
}

TEST_F(RunLeaderTest, OrdersTheFirstSnapshotAfterTheTimeThatItIsGiven) {
  options_.steps = {.count = 9, .snapshot_after = std::chrono::minutes(10)};
  begin_after(0);
  const auto snapshot_of = [&](std::uint32_t step, std::chrono::minutes passed) {
    leader_->receive(1, Vote{voter, 0, step}, now + passed);
    leader_->receive(2, Vote{other_voter, 0, step}, now + passed);
    return newest<Commit>().snapshot;
  };
  EXPECT_FALSE(snapshot_of(0, std::chrono::minutes(0)));
  EXPECT_FALSE(snapshot_of(1, std::chrono::minutes(9)));
  EXPECT_TRUE(snapshot_of(2, std::chrono::minutes(10)));
}

// The actors that are replaced learn the newest commit at the end.
TEST(RunLeaderOfAWriter, CommitsForAFreeWriterOnlyAfterAReplacement) {
  Graph graph;
  graph.connect(graph.add<Counter>("counter/0", 9u), &Counter::out, graph.add<Voter>("voter"),
                &Voter::in);
  for (const std::string number : {"1", "2"})
    graph.connect(graph.add<Counter>("counter/" + number, 9u), &Counter::out,
                  graph.add<Writer>("writer/" + number), &Writer::in);
  std::map<std::string, std::uint32_t> actors;
  for (std::size_t i = 0; i < graph.actors().size(); ++i)
    actors[graph.actors()[i].name] = static_cast<std::uint32_t>(i);
  RunOptions options;
  options.steps = {.count = 9, .exact_snapshot_every = 1};
  const Placement placement(graph, 0, 1);
  std::vector<std::uint32_t> commits;
  RunLeader leader(graph, placement, options, 0, [&](const RunMessage& order) {
    if (const auto* commit = std::get_if<Commit>(&order)) commits.push_back(commit->step);
  });
  leader.receive(0, Vote{actors["voter"], 0, 0}, now);
  leader.receive(0, Vote{actors["voter"], 0, 1}, now);
  EXPECT_THAT(commits, ElementsAre(0)) << "two writers are busy";
  leader.receive(0, ActorFailed{actors["writer/1"], 0, "disk"}, now);
  leader.receive(0, ActorStatus{.actor = actors["writer/2"], .accepts_snapshot = true}, now);
  EXPECT_THAT(commits, ElementsAre(0)) << "one is being replaced";
  for (const auto phase :
       {ReplacementPhase::prepare, ReplacementPhase::rewire, ReplacementPhase::start})
    leader.receive(0, PhaseDone{phase, 1}, now);
  EXPECT_THAT(commits, ElementsAre(0, 1));
}

TEST_F(RunLeaderTest, WarnsOnceAboutAnOverdueVote) {
  EXPECT_EQ(leader_->overdue_votes(false), "");
  EXPECT_EQ(leader_->overdue_votes(false), "") << "no actor has voted: all may still be at work";
  receive(1, Vote{voter, 0, 0});
  EXPECT_EQ(leader_->overdue_votes(false), "") << "the other may be about to";
  EXPECT_THAT(leader_->overdue_votes(false), StartsWith("step 0 waits for the vote of voter/1;"));
  EXPECT_EQ(leader_->overdue_votes(false), "");
}

TEST_F(RunLeaderTest, WarnsAboutVotesWhenNoActorHasWork) {
  EXPECT_EQ(leader_->overdue_votes(true), "");
  EXPECT_THAT(leader_->overdue_votes(true),
              HasSubstr("voter/0, voter/1, and no actor has anything"));
}

TEST_F(RunLeaderTest, NamesWhoHoldsMessagesWhenNoActorHasWork) {
  const std::vector<std::string> holders{"voter/1 has held 2 messages since step 0"};
  EXPECT_EQ(leader_->overdue_votes(true, holders), "");
  EXPECT_THAT(leader_->overdue_votes(true, holders),
              EndsWith("; voter/1 has held 2 messages since step 0"));
}

TEST_F(RunLeaderTest, DoesNotTakeASlowStepForTheOneBeforeIt) {
  for (std::uint32_t step = 0; step < 2; ++step) {
    receive(1, Vote{voter, 0, step});
    EXPECT_EQ(leader_->overdue_votes(true), "");
    receive(2, Vote{other_voter, 0, step});
  }
}

TEST_F(RunLeaderTest, OrdersTheLastCommitOfARunWithoutStepsLeftAgainAndEndsIt) {
  leader_->begin();
  EXPECT_TRUE(orders_.empty()) << "the run has steps";
  for (const std::uint32_t first : {2u, 7u}) {
    begin_after(first);
    ASSERT_EQ(orders_.size(), 2u);
    const auto& commit = std::get<Commit>(orders_.front());
    EXPECT_EQ(commit.step, first - 1);
    EXPECT_TRUE(commit.last);
    EXPECT_FALSE(commit.snapshot) << "the run began from it";
    EXPECT_EQ(newest<EndRun>().steps, first);
    leader_->overdue_votes(true);
    EXPECT_EQ(leader_->overdue_votes(true), "") << "no vote is missing";
  }
}

TEST_F(RunLeaderTest, EndsAtOnceOnAStopRequestIfNoStepIsLeft) {
  receive(0, StopRequest{});
  EXPECT_TRUE(orders_.empty()) << "a commit follows";
  graph_.connect(graph_.add<Counter>("counter/2", 9u), &Counter::out, graph_.add<Writer>("writer"),
                 &Writer::in);
  begin_after(2);
  EXPECT_EQ(orders_.size(), 1u) << "the writer may still write";
  receive(0, StopRequest{});
  EXPECT_TRUE(newest<EndRun>().stopped);
  EXPECT_EQ(newest<EndRun>().steps, 2u);
}

TEST_F(RunLeaderTest, LetsEveryProcessThroughAPhaseBeforeTheNext) {
  receive(1, ActorFailed{voter, 0, "it threw", {}});
  EXPECT_EQ(newest<Replacement>().phase, ReplacementPhase::prepare);
  EXPECT_THAT(newest<Replacement>().actors, ElementsAre(voter));
  receive(0, PhaseDone{ReplacementPhase::prepare, 1});
  receive(1, PhaseDone{ReplacementPhase::prepare, 1});
  receive(1, PhaseDone{ReplacementPhase::prepare, 1});  // said twice is said once
  EXPECT_EQ(orders_.size(), 1u);
  receive(2, PhaseDone{ReplacementPhase::prepare, 1});
  EXPECT_EQ(newest<Replacement>().phase, ReplacementPhase::rewire);
  all_done(ReplacementPhase::rewire, 1);
  EXPECT_EQ(newest<Replacement>().phase, ReplacementPhase::start);
}

TEST_F(RunLeaderTest, ReplacesOneAfterTheOther) {
  receive(1, ActorFailed{voter, 0, "it threw", {}});
  receive(2, ActorFailed{other_voter, 0, "so did it", {}});
  for (const auto phase :
       {ReplacementPhase::prepare, ReplacementPhase::rewire, ReplacementPhase::start})
    all_done(phase, 1);
  EXPECT_EQ(newest<Replacement>().phase, ReplacementPhase::prepare);
  EXPECT_EQ(newest<Replacement>().incarnation, 2u);
  EXPECT_THAT(newest<Replacement>().actors, ElementsAre(other_voter));
}

TEST_F(RunLeaderTest, DropsTheVoteAndTheDeathOfAReplacedIncarnation) {
  receive(1, ActorFailed{voter, 0, "it threw", {}});
  for (const auto phase :
       {ReplacementPhase::prepare, ReplacementPhase::rewire, ReplacementPhase::start})
    all_done(phase, 1);
  const std::size_t before = orders_.size();
  receive(1, Vote{voter, 0, 0});
  receive(2, Vote{other_voter, 0, 0});
  receive(1, ActorFailed{voter, 0, "again", {}});
  EXPECT_EQ(orders_.size(), before);
  receive(1, Vote{voter, 1, 0});
  EXPECT_EQ(newest<Commit>().step, 0u);
}

TEST_F(RunLeaderTest, RepeatsTheNewestCommitForAReplacement) {
  receive(1, Vote{voter, 0, 0});
  receive(2, Vote{other_voter, 0, 0});
  receive(1, ActorFailed{voter, 0, "it threw", {}});
  EXPECT_EQ(newest<Replacement>().steps, 1u);
  all_done(ReplacementPhase::prepare, 1);
  all_done(ReplacementPhase::rewire, 1);
  ASSERT_TRUE(newest<Replacement>().newest);
  EXPECT_EQ(newest<Replacement>().newest->step, 0u);
}

TEST_F(RunLeaderTest, EndsWhenTheLastStepIsCommitted) {
  for (const std::uint32_t step : {0u, 1u}) {
    receive(1, Vote{voter, 0, step});
    receive(2, Vote{other_voter, 0, step});
  }
  EXPECT_FALSE(newest<EndRun>().failure);
  EXPECT_EQ(newest<EndRun>().steps, 2u);
  for (const std::uint32_t process : {0u, 1u}) receive(process, ProcessEnded{});
  EXPECT_FALSE(leader_->concluded());
  receive(2, ProcessEnded{});
  EXPECT_TRUE(leader_->concluded());
  EXPECT_TRUE(leader_->report());
}

TEST_F(RunLeaderTest, DoesNotFailForAProcessThatIsLostAfterItsEnd) {
  for (const std::uint32_t step : {0u, 1u}) {
    receive(1, Vote{voter, 0, step});
    receive(2, Vote{other_voter, 0, step});
  }
  receive(1, ProcessEnded{});
  leader_->lost(1, Error(ErrorCode::peer_lost, "its process ended"));
  EXPECT_FALSE(leader_->concluded());
  for (const std::uint32_t process : {0u, 2u}) receive(process, ProcessEnded{});
  EXPECT_TRUE(leader_->concluded());
  EXPECT_TRUE(leader_->report());
}

TEST_F(RunLeaderTest, PutsReportsInTheOrderOfTheGraph) {
  for (const std::uint32_t step : {0u, 1u}) {
    receive(1, Vote{voter, 0, step});
    receive(2, Vote{other_voter, 0, step});
  }
  receive(2, ProcessEnded{.actors = {{.name = "voter/1"}}});
  receive(0, ProcessEnded{.actors = {{.name = "counter/0"}}});
  receive(1, ProcessEnded{.actors = {{.name = "voter/0"}, {.name = "counter/1"}}});
  const RunReport report = leader_->report().value();
  std::vector<std::string> names;
  for (const ActorReport& actor : report.actors) names.push_back(actor.name);
  EXPECT_THAT(names, ElementsAre("counter/0", "voter/0", "counter/1", "voter/1"));
}

TEST_F(RunLeaderTest, KeepsTheFirstOfSeveralFailures) {
  receive(1, RunFailed{Error(ErrorCode::io, "first")});
  receive(2, ActorFailed{other_voter, 0, "second", Error(ErrorCode::bad_file, "second")});
  leader_->lost(2, Error(ErrorCode::peer_lost, "third"));
  receive(0, ProcessEnded{});
  receive(1, ProcessEnded{});
  EXPECT_TRUE(leader_->concluded());  // 2 is lost: nothing comes from it
  EXPECT_EQ(leader_->report().error().message(), "first");
}

TEST_F(RunLeaderTest, TracesOfAllProcessesCountFromTheStartOfTheLeader) {
  for (const std::uint32_t step : {0u, 1u}) {
    receive(1, Vote{voter, 0, step});
    receive(2, Vote{other_voter, 0, step});
  }
  using std::chrono::nanoseconds;
  const auto part = [](std::int64_t begun, int begin) {
    return TracePart{begun, {{voter, "F", {}, nanoseconds(begin), nanoseconds(begin + 2)}}};
  };
  receive(0, ProcessEnded{});
  receive(1, part(100, 5));
  receive(1, part(100, 8));
  receive(1, ProcessEnded{});
  receive(2, part(-3, 4));
  receive(2, ProcessEnded{});
  const RunReport report = leader_->report().value();
  ASSERT_EQ(report.trace.size(), 3u);
  EXPECT_EQ(report.trace[0].begin, nanoseconds(105));
  EXPECT_EQ(report.trace[0].end, nanoseconds(107));
  EXPECT_EQ(report.trace[1].begin, nanoseconds(108));
  EXPECT_EQ(report.trace[2].begin, nanoseconds(1));
}

TEST_F(RunLeaderTest, RefusesUnknownActors) {
  EXPECT_THROW(receive(1, Vote{99, 0, 0}), std::exception);
  EXPECT_THROW(receive(1, ActorFailed{99, 0, "", {}}), std::exception);
  EXPECT_THROW(receive(1, ActorStatus{99, true, true}), std::exception);
}

}  // namespace
}  // namespace troupe

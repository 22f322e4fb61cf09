#include "runtime/flow/supervisor.h"

#include <gmock/gmock.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Supervisor::Clock::time_point start{};

std::vector<Supervisor::SupervisedActor> two_stages_a_reducer_and_a_writer() {
  return {{.name = "stage/0", .votes = true},
          {.name = "stage/1", .votes = true},
          {.name = "reducer", .restarts_step = true},
          {.name = "writer", .outlives_steps = true, .takes_snapshots = true}};
}

TEST(Supervisor, WaitsForNoCommitWhereAllStepsAreMade) {
  for (const std::uint32_t steps : {0u, 2u}) {
    Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.first = steps, .count = steps},
                          {});
    EXPECT_FALSE(supervisor.done());
    supervisor.finished(3);
    EXPECT_TRUE(supervisor.done());
  }
}

TEST(Supervisor, CommitsWhenTheLastVoterHasVoted) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 2}, {});
  EXPECT_FALSE(supervisor.vote(0, 0));
  EXPECT_FALSE(supervisor.vote(0, 0));  // twice from one is still one
  const auto commit = supervisor.vote(1, 0);
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->step, 0u);
  EXPECT_FALSE(commit->last);
}

TEST(Supervisor, RequestsASnapshotWhenTheTimeSinceTheLastOneHasPassed) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(),
                        {.count = 100, .snapshot_after = 10min}, {});
  std::uint32_t step = 0;
  const auto commit_at = [&](std::chrono::minutes time) {
    supervisor.vote(0, step, start + time);
    const bool snapshot = supervisor.vote(1, step++, start + time)->snapshot;
    supervisor.accept_snapshots(3, true);
    return snapshot;
  };
  EXPECT_FALSE(commit_at(100min)) << "the time of the first commit is the beginning";
  EXPECT_FALSE(commit_at(109min));
  EXPECT_TRUE(commit_at(111min));
  EXPECT_FALSE(commit_at(120min));
  EXPECT_TRUE(commit_at(121min));
}

TEST(Supervisor, IgnoresVotesForOtherSteps) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 3}, {});
  supervisor.vote(0, 0);
  supervisor.vote(1, 0);
  EXPECT_FALSE(supervisor.vote(0, 0));
  EXPECT_FALSE(supervisor.vote(1, 0));
}

TEST(Supervisor, IsDoneAfterTheLastCommitAndTheLastKeeper) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 1}, {});
  supervisor.finished(3);
  EXPECT_FALSE(supervisor.done());
  supervisor.vote(0, 0);
  const auto commit = supervisor.vote(1, 0);
  ASSERT_TRUE(commit);
  EXPECT_TRUE(commit->last);
  EXPECT_TRUE(supervisor.done());
}

TEST(Supervisor, StopsAtTheNextCommitWithASnapshot) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 100}, {});
  supervisor.request_stop();
  supervisor.vote(0, 0);
  const auto commit = supervisor.vote(1, 0);
  ASSERT_TRUE(commit);
  EXPECT_TRUE(commit->last && commit->snapshot && commit->stop_requested);
}

TEST(Supervisor, EndsBeforeAStepWithTheLastCommitAgain) {
  for (const bool has_snapshot : {false, true}) {
    Supervisor supervisor(
        two_stages_a_reducer_and_a_writer(),
        {.count = 100, .snapshot_every = {has_snapshot ? 1u : 0u}, .snapshot_at_end = true}, {});
    EXPECT_FALSE(supervisor.end_before(0)) << "there is no step before it";
    supervisor.vote(0, 0);
    supervisor.vote(1, 0);
    EXPECT_FALSE(supervisor.end_before(0)) << "it is committed";
    EXPECT_FALSE(supervisor.end_before(2));
    supervisor.vote(0, 1);
    const auto commit = supervisor.end_before(1);
    ASSERT_TRUE(commit);
    EXPECT_EQ(commit->step, 0);
    EXPECT_TRUE(commit->last && !commit->stop_requested);
    EXPECT_EQ(commit->snapshot, !has_snapshot);
    EXPECT_TRUE(supervisor.newest_commit()->snapshot) << "a new writer waits for it";
    EXPECT_FALSE(supervisor.vote(1, 1)) << "no step follows";
    EXPECT_FALSE(supervisor.end_before(1)) << "the run has ended";
    EXPECT_EQ(supervisor.steps(), 1);
    EXPECT_FALSE(supervisor.stopped());
  }
}

TEST(Supervisor, EndsAResumedRunBeforeItsFirstStepWithoutASnapshot) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(),
                        {.first = 6, .count = 100, .snapshot_at_end = true}, {});
  const auto commit = supervisor.end_before(6);
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->step, 5);
  EXPECT_FALSE(commit->snapshot);
  EXPECT_FALSE(supervisor.newest_commit()->snapshot) << "which a new writer would wait for";
}

TEST(Supervisor, PutsASnapshotOffWhileTheWriterIsBusy) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 100, .snapshot_every = {2}},
                        {});
  const auto step = [&](std::uint32_t n) {
    supervisor.vote(0, n);
    return supervisor.vote(1, n)->snapshot;
  };
  EXPECT_FALSE(step(0));
  EXPECT_TRUE(step(1));
  EXPECT_FALSE(step(2));
  EXPECT_FALSE(step(3));  // due, but the writer has not said that it is done
  supervisor.accept_snapshots(3, true);
  EXPECT_TRUE(step(4));
}

TEST(Supervisor, CommitsWhenTheWriterIsFreeIfNoSnapshotMayBeLate) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(),
                        {.count = 100, .exact_snapshot_every = 2}, {});
  const auto step = [&](std::uint32_t n) {
    supervisor.vote(0, n);
    return supervisor.vote(1, n);
  };
  EXPECT_FALSE(step(0)->snapshot);
  EXPECT_TRUE(step(1)->snapshot);
  EXPECT_FALSE(step(2)->snapshot);  // not due: the busy writer delays nothing
  EXPECT_FALSE(supervisor.waits_for_writer());
  EXPECT_FALSE(step(3));
  EXPECT_TRUE(supervisor.waits_for_writer());
  EXPECT_FALSE(supervisor.commit_if_ready());
  supervisor.accept_snapshots(3, true);
  const auto commit = supervisor.commit_if_ready();
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->step, 3);
  EXPECT_TRUE(commit->snapshot);
  EXPECT_FALSE(supervisor.commit_if_ready()) << "the next step has no votes";
  EXPECT_FALSE(step(4)->snapshot);
  EXPECT_FALSE(step(5));
  supervisor.actor_failed(3, "disk", start);  // its replacement is free
  EXPECT_TRUE(supervisor.commit_if_ready()->snapshot);
}

TEST(Supervisor, WaitsForNoSnapshotThatNobodySendsAgain) {
  auto actors = two_stages_a_reducer_and_a_writer();
  actors.push_back(
      {.name = "writer/1", .outlives_steps = true, .takes_snapshots = true, .neighbours = {1}});
  Supervisor supervisor(actors, {.count = 100, .exact_snapshot_every = 2}, {});
  const auto step = [&](std::uint32_t n) {
    supervisor.vote(0, n);
    return supervisor.vote(1, n);
  };
  step(0);
  EXPECT_TRUE(step(1)->snapshot);
  step(2);
  supervisor.actor_failed(1, "out of luck", start);  // writer/1 has its snapshot
  EXPECT_FALSE(step(3));
  EXPECT_TRUE(supervisor.waits_for_writer());
  supervisor.actor_failed(4, "disk", start);
  EXPECT_TRUE(step(3)->snapshot);
}

TEST(Supervisor, ReplacesAStageAlone) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 2}, {});
  EXPECT_THAT(supervisor.actor_failed(1, "out of luck", start), ElementsAre(1));
}

TEST(Supervisor, RestartsTheStepWhenAReducerDies) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 2}, {});
  supervisor.vote(0, 0);
  EXPECT_THAT(supervisor.actor_failed(2, "out of luck", start), ElementsAre(0, 1, 2));
  EXPECT_FALSE(supervisor.vote(1, 0));  // the vote of before does not count any more
  EXPECT_TRUE(supervisor.vote(0, 0));
}

TEST(Supervisor, RestartsTheStepWhenTwoNeighboursDie) {
  auto actors = two_stages_a_reducer_and_a_writer();
  actors[0].neighbours = {1};
  actors[1].neighbours = {0};
  Supervisor supervisor(actors, {.count = 9}, {});
  EXPECT_THAT(supervisor.actor_failed(0, "out of luck", start), ElementsAre(0));
  EXPECT_THAT(supervisor.actor_failed(0, "again", start), ElementsAre(0));  // alone as before
  EXPECT_THAT(supervisor.actor_failed(1, "out of luck", start), ElementsAre(0, 1, 2));
  EXPECT_THAT(supervisor.actor_failed(0, "after that", start), ElementsAre(0));
}

TEST(Supervisor, RestartsTheStepWhenTheyDieInDifferentSteps) {
  // A loader may have sent for steps to come what its replacement has not sent again yet.
  auto actors = two_stages_a_reducer_and_a_writer();
  actors[0].neighbours = {1};
  actors[1].neighbours = {0};
  Supervisor supervisor(actors, {.count = 9}, {});
  supervisor.actor_failed(0, "out of luck", start);
  supervisor.vote(0, 0);
  supervisor.vote(1, 0);
  EXPECT_THAT(supervisor.actor_failed(1, "out of luck", start), ElementsAre(0, 1, 2));
}

TEST(Supervisor, WaitsForTheVoteOfAReplacement) {
  // A commit must not reach it before it has made its next state again.
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 2}, {});
  supervisor.vote(0, 0);
  supervisor.actor_failed(0, "out of luck", start);
  EXPECT_FALSE(supervisor.vote(1, 0));
  EXPECT_TRUE(supervisor.vote(0, 0));
}

TEST(Supervisor, TakesNoVoteAfterTheLastCommit) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 100}, {});
  supervisor.request_stop();
  supervisor.vote(0, 0);
  ASSERT_TRUE(supervisor.vote(1, 0)->last);
  supervisor.vote(0, 1);
  EXPECT_FALSE(supervisor.vote(1, 1));
  EXPECT_EQ(supervisor.steps(), 1u);
}

TEST(Supervisor, IgnoresAStopRequestDuringTheLastStep) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 1}, {});
  supervisor.request_stop();
  supervisor.vote(0, 0);
  EXPECT_FALSE(supervisor.vote(1, 0)->stop_requested);
  EXPECT_FALSE(supervisor.stopped());
}

TEST(Supervisor, CountsFailuresWithoutAStepBetweenHoweverSlowTheyAre) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 2},
                        {.max = 1, .within = 60s});
  supervisor.actor_failed(0, "out of memory", start);
  EXPECT_THROW(supervisor.actor_failed(0, "out of memory", start + 120s), Error);
}

TEST(Supervisor, CountsFailuresOfTheLastMinuteOnlyWhereStepsGoOn) {
  Supervisor supervisor(two_stages_a_reducer_and_a_writer(), {.count = 2},
                        {.max = 1, .within = 60s});
  supervisor.actor_failed(0, "first", start);
  supervisor.vote(0, 0);
  ASSERT_TRUE(supervisor.vote(1, 0));
  EXPECT_NO_THROW(supervisor.actor_failed(0, "second", start + 61s));
  try {
    supervisor.actor_failed(0, "third", start + 62s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("stage/0 failed: second"));  // the first of those that count
  }
}

}  // namespace
}  // namespace troupe

// Checkpoints that failures of writers lose, and what is told of them.
#include <gmock/gmock.h>

#include <deque>
#include <future>
#include <set>

#include "actors/shard_writer.h"
#include "runtime/flow/runtime_access.h"
#include "training_run.h"

namespace troupe {
namespace {

using ::testing::ElementsAreArray;
using testing::pipeline_of;

/// Votes for each step, and sends the snapshots that commits request, apart from the first ones: a
/// stage that was replaced does not send again what a writer had taken before it failed.
class Sender final : public Actor {
 public:
  Sender(std::size_t stage, std::size_t lost, std::shared_ptr<std::vector<std::uint32_t>> requested)
      : stage_(stage), lost_(lost), requested_(std::move(requested)) {}

  Output<Snapshot> snapshot{this, "snapshot"};

  bool ready() const override { return can_send() || !has_voted_; }
  ActionLabel act() override {
    if (!can_send()) {
      has_voted_ = true;
      vote(open_, nullptr);
      return {"vote", {}};
    }
    const MessageKey key{pending_.front(), Purpose::train, static_cast<std::uint32_t>(stage_)};
    pending_.pop_front();
    snapshot.send({.key = key}, {.stage = stage_, .state = {}, .spec = {}});
    return {"S", key};
  }
  void on_commit(const Commit& commit) override {
    open_ = commit.step + 1;
    has_voted_ = commit.last;
    if (!commit.snapshot) return;
    if (stage_ == 0) requested_->push_back(open_);
    if (lost_ == 0 || commit.last)
      pending_.push_back(commit.step);
    else
      --lost_;
  }
  bool votes() const override { return true; }

 private:
  bool can_send() const { return !pending_.empty() && snapshot.has_slot(); }

  std::size_t stage_, lost_;
  std::shared_ptr<std::vector<std::uint32_t>> requested_;
  std::deque<std::uint32_t> pending_;
  std::uint32_t open_ = 0;
  bool has_voted_ = false;
};

// Each failure of the writer makes commits request the next checkpoint. Two checkpoints without a
// piece of stage 0 have both slots of stage 1: nothing would be written again.
TEST(LostCheckpoints, AreToldAndFreeWhatIsLeftOfThem) {
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    const auto requested = std::make_shared<std::vector<std::uint32_t>>();
    std::set<std::uint32_t> written, lost;
    Graph graph;
    CheckpointWriterOptions options{.in_background = false,
                                    .write = [](auto&&...) { return success(); }};
    options.on_checkpoint = [&](const CheckpointSeen& seen) {
      (seen.status ? written : lost).insert(seen.step);
    };
    const auto writer = graph.add<CheckpointWriter>("writer", options);
    for (const std::size_t stage : {0u, 1u}) {
      const auto sender = graph.add<Sender>("stage/" + std::to_string(stage), stage,
                                            stage == 0 ? 2u : 0u, requested);
      graph.connect(sender, &Sender::snapshot, writer, &CheckpointWriter::snapshot, {.slots = 2});
    }
    RunOptions run_with{.scheduling = Scheduling::deterministic, .seed = seed};
    run_with.steps = {.count = 24, .snapshot_every = {2}, .snapshot_at_end = true};
    run_with.restarts.max = 24;
    for (std::uint32_t step = 0; step < 24; ++step)
      run_with.faults.push_back({"writer", step, 1, "S"});
    EXPECT_EQ(run(graph, run_with).steps, 24u) << seed;
    const std::size_t missing = std::min<std::size_t>(2, requested->size() - 1);
    const auto first_written = requested->begin() + static_cast<std::ptrdiff_t>(missing);
    EXPECT_THAT(lost, ElementsAreArray(requested->begin(), first_written)) << seed;
    EXPECT_THAT(written, ElementsAreArray(first_written, requested->end())) << seed;
  }
}

/// Accepts each snapshot at once, but takes the first one only after the last commit.
class LateWriter final : public Actor {
 public:
  LateWriter(std::shared_ptr<std::uint32_t> requested, std::shared_ptr<std::uint32_t> taken)
      : requested_(std::move(requested)), taken_(std::move(taken)) {}

  Input<Snapshot> snapshot{this, "snapshot"};

  bool ready() const override { return last_ && snapshot.ready(); }
  ActionLabel act() override {
    const auto held = snapshot.take();
    snapshot.release(held);
    if (++*taken_ == *requested_) finish();
    return {"S", held.header.key};
  }
  void on_commit(const Commit& commit) override {
    *requested_ += commit.snapshot ? 1 : 0;
    last_ = commit.last;
    accept_snapshots(true);
  }
  bool outlives_steps() const override { return true; }
  bool takes_snapshots() const override { return true; }
  FiringRules firing_rules() const override { return {}; }

 private:
  std::shared_ptr<std::uint32_t> requested_, taken_;
  bool last_ = false;
};

TEST(LostCheckpoints, AreNoneWhereAStageHasSeveralToSend) {
  std::uint32_t most = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto requested = std::make_shared<std::uint32_t>(0),
               taken = std::make_shared<std::uint32_t>(0);
    Graph graph = build_pipeline(pipeline_of({.partition = {4}, .steps = 6}));
    const auto writer = graph.add<LateWriter>("late", requested, taken);
    graph.connect(graph.find<Stage>("stage/0"), &Stage::snapshot, writer, &LateWriter::snapshot,
                  {.slots = 2});
    RunOptions options{.scheduling = Scheduling::deterministic, .seed = seed};
    options.steps = {.count = 6, .snapshot_every = {1}, .snapshot_at_end = true};
    EXPECT_NO_THROW(run(graph, options)) << seed;
    EXPECT_EQ(*taken, *requested) << seed;
    most = std::max(most, *requested);
  }
  EXPECT_GT(most, 3u) << "the slots held all of them";
}

// It reports what it has written on another thread, when it has no choice any more.
TEST(ShardWriter, TakesNoSnapshotWhoseShardsItCouldNotReport) {
  std::promise<void> goes_on;
  Graph graph;
  const auto sender = graph.add<Sender>("stage", 0u, 0u, nullptr);
  const auto writer = graph.add<ShardWriter>("writer", {.write_shards = [&](auto&&...) {
                                               goes_on.get_future().wait();
                                               return std::vector<ShardInfo>{};
                                             }});
  const auto publisher = graph.add<CheckpointWriter>("publisher", {});
  graph.connect(sender, &Sender::snapshot, writer, &ShardWriter::snapshot, {.slots = 2});
  graph.connect(writer, &ShardWriter::shards, publisher, &CheckpointWriter::shards, {.slots = 1});
  const auto made = graph.make_actor(1);
  RuntimeAccess::set_poster(*made, [] { return [](const Post&) {}; });
  const auto arrives = [&](std::uint32_t step) {
    Packet packet{.header = {.key = {step, Purpose::train, 0}, .slot = step},
                  .payload = std::make_shared<Snapshot>()};
    RuntimeAccess::deliver(*made->inputs().front(), std::move(packet));
  };
  arrives(0);
  ASSERT_TRUE(made->ready());
  made->act();
  arrives(1);
  EXPECT_FALSE(made->ready());
  goes_on.set_value();
}

}  // namespace
}  // namespace troupe

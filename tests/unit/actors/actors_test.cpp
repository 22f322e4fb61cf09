// Single actors, with messages delivered by hand and what they leave behind looked at.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "actors/checkpoint_writer.h"
#include "actors/gradient_norm.h"
#include "actors/loss.h"
#include "actors/monitor.h"
#include "actors/reducer.h"
#include "actors/stage.h"
#include "ops/models/models.h"
#include "runtime/flow/runtime_access.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t many = 8;  // slots

bool is_finished(const RuntimeAccess::Effects& effects) {
  return effects.status && effects.status->finished;
}

/// Attaches every port of an actor to an edge of its own: inputs first, from 0.
void attach(Actor& actor) {
  std::uint32_t edge = 0;
  for (InputPort* port : actor.inputs()) RuntimeAccess::attach(*port, edge++, many);
  for (OutputPort* port : actor.outputs()) RuntimeAccess::attach(*port, edge++, many);
  for (OutputPort* port : actor.outputs()) RuntimeAccess::begin_incarnation(*port, 0);
}

template <class T>
void deliver(InputPort& port, std::uint32_t edge, MessageKey key, T value,
             std::uint32_t micro_batches = 2, std::uint32_t samples = 1) {
  const Header header{.edge = edge,
                      .key = key,
                      .samples = samples,
                      .batch_samples = micro_batches * samples,
                      .micro_batches = micro_batches};
  RuntimeAccess::deliver(port, {header, std::make_shared<const T>(std::move(value))});
}

MessageKey train_key(std::uint32_t step, std::uint32_t micro_batch) {
  return {step, Purpose::train, micro_batch};
}
MessageKey test_key(std::uint32_t step, std::uint32_t micro_batch) {
  return {step, Purpose::evaluate, micro_batch};
}

std::vector<std::string> act_all(Actor& actor) {
  std::vector<std::string> labels;
  while (actor.ready()) labels.emplace_back(actor.act().name);
  return labels;
}

ProgramFactory small_mlp(std::vector<std::size_t> buckets = {}) {
  return network_program({.model = Mlp{.widths = {3}, .classes = 2},
                          .samples = {.shape = {1, 2, 2}, .classes = 2},
                          .buckets = std::move(buckets)});
}

class StageByHand : public ::testing::Test {
 protected:
  StageByHand() : stage_({.program = small_mlp(), .schedule = {.credits = 2}}) {
    attach(stage_);
    stage_.restore(nullptr, 0);
  }
  void give_input(MessageKey key) {
    deliver(stage_.input, 0, key, Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)});
  }
  void give_gradient(MessageKey key) {
    deliver(stage_.output_gradient, 1, key, OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)});
  }
  void give_sum(std::uint32_t step) {
    const auto elements = stage_.state()->weights.shape();
    deliver(stage_.reduced, 2, train_key(step, 0),
            ReducedGradient{Tensor::zeros(elements, DType::f32), {}});
  }
  Stage stage_;
};

TEST_F(StageByHand, HoldsNoMoreMicroBatchesThanItsCredits) {
  for (std::uint32_t m = 0; m < 3; ++m) give_input(train_key(0, m));
  EXPECT_THAT(act_all(stage_), ElementsAre("F", "F"));
  give_gradient(train_key(0, 0));
  EXPECT_THAT(act_all(stage_), ElementsAre("B", "F"));
}

/// A stage in the middle of a pipeline, which may owe one weight gradient; of two buckets.
class StageThatOwes : public ::testing::Test {
 protected:
  StageThatOwes()
      : stage_({.program = small_mlp({1, 2}),
                .schedule = {.credits = 1, .deferred_weight_gradients = 1}}) {
    attach(stage_);
    stage_.restore(nullptr, 0);
  }
  void give(std::uint32_t micro_batch) {
    deliver(stage_.input, 0, train_key(0, micro_batch),
            Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)}, 3);
    deliver(stage_.output_gradient, 1, train_key(0, micro_batch),
            OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)}, 3);
  }
  Stage stage_;
};

TEST_F(StageThatOwes, GoesOnBeforeItMakesTheWeightGradientOfTheMicroBatchBefore) {
  for (std::uint32_t m = 0; m < 3; ++m) give(m);
  EXPECT_THAT(act_all(stage_),
              ElementsAre("F", "B", "F", "B", "W", "W", "F", "B", "W", "W", "W", "W"));
}

TEST_F(StageThatOwes, SendsTheInputGradientFirstAndGivesSlotsBackLast) {
  give(0);
  stage_.act();
  stage_.act();
  auto effects = std::exchange(RuntimeAccess::effects(stage_), {});
  ASSERT_EQ(effects.packets.size(), 2u);
  EXPECT_EQ(effects.packets[1].header.edge, 6u);  // after five inputs and `output`
  EXPECT_THAT(effects.credits, IsEmpty());
  EXPECT_THAT(act_all(stage_), ElementsAre("W", "W"));
  effects = std::exchange(RuntimeAccess::effects(stage_), {});
  EXPECT_EQ(effects.packets.size(), 2u);  // a bucket each
  EXPECT_EQ(effects.credits.size(), 2u);
}

TEST(StageActor, GoesBackAsAWholeWhereNobodyTakesItsInputGradient) {
  Stage first({.program = small_mlp(), .schedule = {.credits = 1, .deferred_weight_gradients = 1}});
  std::uint32_t edge = 0;
  for (InputPort* port : first.inputs()) RuntimeAccess::attach(*port, edge++, many);
  for (OutputPort* port : first.outputs())
    if (port != &first.input_gradient) RuntimeAccess::attach(*port, edge++, many);
  for (OutputPort* port : first.outputs()) RuntimeAccess::begin_incarnation(*port, 0);
  first.restore(nullptr, 0);
  deliver(first.input, 0, train_key(0, 0),
          Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)});
  deliver(first.output_gradient, 1, train_key(0, 0),
          OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)});
  EXPECT_THAT(act_all(first), ElementsAre("F", "B"));
}

TEST_F(StageByHand, WaitsForTheCommitBeforeTheNextStep) {
  give_input(train_key(1, 0));
  EXPECT_FALSE(stage_.ready());
  give_sum(0);
  EXPECT_THAT(act_all(stage_), ElementsAre("U"));
  const auto effects = std::exchange(RuntimeAccess::effects(stage_), {});
  ASSERT_TRUE(effects.vote);
  EXPECT_EQ(effects.vote->step, 0u);
  EXPECT_THAT(effects.credits, IsEmpty());  // the sum stays in its slot until the commit
  EXPECT_FALSE(stage_.ready());
  const auto before = stage_.state();
  stage_.on_commit({.step = 0});
  EXPECT_NE(stage_.state(), before);
  EXPECT_EQ(std::exchange(RuntimeAccess::effects(stage_), {}).credits.size(), 1u);
  EXPECT_THAT(act_all(stage_), ElementsAre("F"));
}

TEST_F(StageByHand, EvaluatesAfterTheCommitOnly) {
  give_input(test_key(0, 0));
  EXPECT_FALSE(stage_.ready());
  give_sum(0);
  EXPECT_THAT(act_all(stage_), ElementsAre("U"));
  stage_.on_commit({.step = 0});
  EXPECT_THAT(act_all(stage_), ElementsAre("E"));
}

TEST_F(StageByHand, TakesACommitOnce) {
  give_sum(0);
  act_all(stage_);
  stage_.on_commit({.step = 0});
  const auto state = stage_.state();
  stage_.on_commit({.step = 0});
  EXPECT_EQ(stage_.state(), state);
}

TEST_F(StageByHand, SendsASnapshotOnlyWhenAsked) {
  give_sum(0);
  act_all(stage_);
  std::exchange(RuntimeAccess::effects(stage_), {});
  stage_.on_commit({.step = 0});
  EXPECT_THAT(std::exchange(RuntimeAccess::effects(stage_), {}).packets, IsEmpty());
  give_sum(1);
  act_all(stage_);
  std::exchange(RuntimeAccess::effects(stage_), {});
  stage_.on_commit({.step = 1, .snapshot = true});
  EXPECT_THAT(act_all(stage_), ElementsAre("S"));
  const auto effects = std::exchange(RuntimeAccess::effects(stage_), {});
  ASSERT_EQ(effects.packets.size(), 1u);
  const auto& snapshot = *static_cast<const Snapshot*>(effects.packets[0].payload.get());
  EXPECT_EQ(snapshot.state, stage_.state());  // handed over, not copied
}

// A replacement repeats micro-batches that were not released, and may receive the sum meanwhile.
TEST_F(StageByHand, LeavesAMicroBatchBehindWhoseStepIsCommitted) {
  give_input(train_key(0, 0));
  EXPECT_THAT(act_all(stage_), ElementsAre("F"));
  give_sum(0);
  EXPECT_THAT(act_all(stage_), ElementsAre("U"));
  stage_.on_commit({.step = 0});
  EXPECT_EQ(RuntimeAccess::held(stage_.input).count, 0u);
  give_gradient(train_key(0, 0));
  EXPECT_THAT(act_all(stage_), ElementsAre("discard"));
  give_input(train_key(1, 0));
  give_gradient(train_key(1, 0));
  EXPECT_THAT(act_all(stage_), ElementsAre("F", "B"));
  EXPECT_EQ(RuntimeAccess::held(stage_.input).count, 0u);
  EXPECT_EQ(RuntimeAccess::held(stage_.output_gradient).count, 0u);
}

TEST_F(StageThatOwes, LeavesAWeightGradientBehindWhoseStepIsCommitted) {
  give(0);
  stage_.act();
  stage_.act();
  for (std::uint32_t bucket = 0; bucket < 2; ++bucket)
    deliver(stage_.reduced, 2, train_key(0, bucket), ReducedGradient{.bucket = bucket});
  EXPECT_EQ(stage_.act().name, "U");
  stage_.on_commit({.step = 0});
  EXPECT_EQ(RuntimeAccess::held(stage_.input).count, 0u);
  EXPECT_EQ(RuntimeAccess::held(stage_.output_gradient).count, 0u);
  EXPECT_FALSE(stage_.ready());
}

TEST_F(StageByHand, DropsWhatBelongsToAStepThatIsWhole) {
  stage_.restore(stage_.state(), 3);
  give_sum(2);
  EXPECT_TRUE(stage_.ready());
  act_all(stage_);
  const auto effects = std::exchange(RuntimeAccess::effects(stage_), {});
  EXPECT_FALSE(effects.vote);
  EXPECT_EQ(effects.credits.size(), 1u);
}

Tensor numbers(float first, float second) {
  Tensor tensor = Tensor::zeros(Shape{2}, DType::f32);
  tensor.data<float>()[0] = first;
  tensor.data<float>()[1] = second;
  return tensor;
}

TEST(ReducerByHand, GivesTheSameSumInAnyOrderOfArrival) {
  const std::vector<float> parts{1e8F, 1.0F, -1e8F, 3.0F, 0.5F};
  std::vector<std::uint32_t> order{0, 1, 2, 3, 4};
  std::vector<float> sums;
  do {
    Reducer reducer;
    // An edge for each micro-batch, as if each came from a replica of its own.
    for (std::uint32_t e = 0; e < 5; ++e) RuntimeAccess::attach(reducer.gradient, e, 1);
    RuntimeAccess::attach(reducer.reduced, 5, 1);
    for (const std::uint32_t m : order)
      deliver(reducer.gradient, m, train_key(0, m), Gradient{numbers(parts[m], 1), {}}, 5);
    act_all(reducer);
    const auto effects = std::exchange(RuntimeAccess::effects(reducer), {});
    EXPECT_EQ(effects.credits.size(), 5u);
    ASSERT_EQ(effects.packets.size(), 1u);
    const auto& sum = *static_cast<const ReducedGradient*>(effects.packets[0].payload.get());
    EXPECT_EQ(sum.statistics.size(), 5u);
    EXPECT_EQ(sum.weights.data<float>()[1], 5.0F);
    sums.push_back(sum.weights.data<float>()[0]);
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(sums.size(), 120u);
  EXPECT_THAT(sums, ::testing::Each(((1e8F + 1.0F) + (-1e8F + 3.0F)) + 0.5F));
}

// Added by stages, each of the ones is lost beside 1e16; added together first, they are not.
TEST(GradientNormByHand, GivesTheSameNormInAnyOrderOfArrival) {
  constexpr std::uint32_t stages = 8;
  for (const bool reversed : {false, true}) {
    GradientNorm norm({.stages = stages});
    for (std::uint32_t edge = 0; edge < stages; ++edge)
      RuntimeAccess::attach(norm.squares, edge, many);
    RuntimeAccess::attach(norm.norm, stages, many);
    for (std::uint32_t i = 0; i < stages; ++i) {
      const std::uint32_t stage = reversed ? stages - 1 - i : i;
      const double square = stage == 0 ? 1e16 : 1.0;
      deliver(norm.squares, stage, train_key(0, stage),
              GradientSquares{Tensor::from<double>({1}, {&square, 1})}, stages);
    }
    (void)act_all(norm);
    const auto packets = RuntimeAccess::effects(norm).packets;
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(static_cast<const GradientNormOfStep*>(packets[0].payload.get())->norm, 1e8)
        << (reversed ? "the last stage first" : "in order");
  }
}

TEST(LossByHand, RefusesTargetsOfAnotherMicroBatch) {
  Loss loss;
  attach(loss);
  deliver(loss.logits, 0, train_key(0, 1), Activation{Tensor::zeros(Shape{1, 2}, DType::f32)});
  deliver(loss.targets, 1, train_key(0, 0), Targets{Tensor::zeros(Shape{1}, DType::i64)});
  ASSERT_TRUE(loss.ready());
  try {
    loss.act();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("micro-batch 1 with targets of step 0, micro-batch 0"));
  }
}

TEST(LossByHand, SmoothsTheLabelsOfTrainingOnly) {
  for (const auto purpose : {Purpose::train, Purpose::evaluate}) {
    Loss loss({.function = {.label_smoothing = 0.5}});
    attach(loss);
    MessageKey key = train_key(0, 0);
    key.purpose = purpose;
    Tensor logits = Tensor::zeros(Shape{1, 2}, DType::f32);
    logits.data<float>()[0] =
        20;  // so sure of class 0 that its loss is 0, and that of class 1 is 20
    deliver(loss.logits, 0, key, Activation{logits});
    deliver(loss.targets, 1, key, Targets{Tensor::zeros(Shape{1}, DType::i64)});
    loss.act();
    const auto effects = std::exchange(RuntimeAccess::effects(loss), {});
    const auto& score = *static_cast<const Score*>(effects.packets.back().payload.get());
    EXPECT_NEAR(score.numbers().loss_sum, purpose == Purpose::train ? 0.25 * 20 : 0, 1e-6);
  }
  EXPECT_THROW(Loss({.function = {.label_smoothing = 1}}), Error);
}

TEST(MonitorByHand, ReportsInOrderAtTheCommitAndOnce) {
  std::vector<std::string> seen;
  Monitor monitor({.timeline = {.steps = 4, .steps_per_epoch = 2},
                   .test_count = 2,
                   .on_step =
                       [&](const StepSeen& s) {
                         seen.push_back("step " + std::to_string(s.step) + " loss " +
                                        std::to_string(static_cast<int>(s.loss)));
                       },
                   .on_evaluation =
                       [&](const Evaluation& e) {
                         seen.push_back("test " + std::to_string(e.step) + " " +
                                        std::to_string(e.correct.value_or(-1)) + "/" +
                                        std::to_string(e.count));
                       }});
  attach(monitor);
  monitor.restore(nullptr, 0);
  const auto score = [&](MessageKey key, double loss) {
    deliver(monitor.score, 0, key, Score::of({loss, 1}));
    act_all(monitor);
  };
  const auto vote = [&] {
    return std::exchange(RuntimeAccess::effects(monitor), {}).vote.has_value();
  };
  score(train_key(0, 0), 3);
  EXPECT_FALSE(vote());
  score(train_key(0, 1), 5);
  EXPECT_TRUE(vote());
  EXPECT_THAT(seen, IsEmpty());
  monitor.on_commit({.step = 0});
  EXPECT_THAT(seen, ElementsAre("step 1 loss 4"));
  monitor.on_commit({.step = 0});
  score(train_key(1, 0), 1);
  score(train_key(1, 1), 1);
  EXPECT_TRUE(vote());
  // The test set is counted before the commit's news arrives.
  score(test_key(1, 0), 1);
  monitor.on_commit({.step = 1});
  score(train_key(2, 0), 2);
  EXPECT_FALSE(vote());
  EXPECT_THAT(seen, ElementsAre("step 1 loss 4", "step 2 loss 1"));
}

TEST(MonitorByHand, WantsTheTestSetWholeBeforeTheNextCommit) {
  Monitor monitor({.timeline = {.steps = 2, .steps_per_epoch = 1}, .test_count = 2});
  attach(monitor);
  monitor.restore(nullptr, 0);
  deliver(monitor.score, 0, train_key(0, 0), Score::of({1, 1}), 1);
  act_all(monitor);
  monitor.on_commit({.step = 0});
  std::exchange(RuntimeAccess::effects(monitor), {});
  deliver(monitor.score, 0, test_key(0, 0), Score::of({1, 1}), 2);
  deliver(monitor.score, 0, train_key(1, 0), Score::of({1, 1}), 1);
  act_all(monitor);
  EXPECT_FALSE(std::exchange(RuntimeAccess::effects(monitor), {}).vote);
}

// Its first vote no longer counts, and the loss does not repeat scores that were released.
TEST(MonitorByHand, VotesAgainInTheFirstStepThoughNoScoreComesAgain) {
  const MonitorOptions options{.timeline = {.steps = 4, .steps_per_epoch = 2}, .test_count = 1};
  Monitor first(options);
  attach(first);
  first.restore(nullptr, 0);
  deliver(first.score, 0, train_key(0, 0), Score::of({1, 1}), 1);
  act_all(first);
  EXPECT_TRUE(RuntimeAccess::effects(first).vote);
  Monitor next(options);
  attach(next);
  next.restore(nullptr, 0);
  act_all(next);
  EXPECT_TRUE(RuntimeAccess::effects(next).vote);
}

TEST(WriterByHand, WritesWhenAllStagesHaveComeAndTellsOfFailure) {
  std::vector<std::string> reported;
  CheckpointWriter writer(
      {.in_background = false,
       .write = [](std::uint32_t, const std::vector<Snapshot>& snapshots, const auto&) -> Status {
         EXPECT_EQ(snapshots[0].stage, 0u);
         EXPECT_EQ(snapshots[1].stage, 1u);
         return Error(ErrorCode::io, "the disk is full");
       },
       .on_checkpoint =
           [&](const CheckpointSeen& seen) {
             reported.push_back(std::to_string(seen.step) + ": " + seen.status.error().message());
           }});
  RuntimeAccess::attach(writer.snapshot, 0, 2);
  RuntimeAccess::attach(writer.snapshot, 1, 2);
  deliver(writer.snapshot, 1, train_key(4, 1), Snapshot{.stage = 1});
  act_all(writer);
  EXPECT_THAT(reported, IsEmpty());
  writer.on_commit({.step = 4, .snapshot = true, .last = true});
  EXPECT_FALSE(is_finished(std::exchange(RuntimeAccess::effects(writer), {})));
  deliver(writer.snapshot, 0, train_key(4, 0), Snapshot{.stage = 0});
  act_all(writer);
  EXPECT_THAT(reported, ElementsAre("5: the disk is full"));
  const auto effects = std::exchange(RuntimeAccess::effects(writer), {});
  EXPECT_TRUE(is_finished(effects));
  EXPECT_EQ(effects.credits.size(), 2u);
  EXPECT_EQ(effects.status->accepts_snapshot, true);
}

/// A writer of one stage here and one in another process.
struct SharedWriter {
  std::vector<std::string> reported;
  std::size_t published = 0;
  CheckpointWriter writer;

  explicit SharedWriter(const std::filesystem::path& folder)
      : writer({.in_background = false,
                .folder = folder,
                .write = [this](std::uint32_t, const auto&, const auto& elsewhere) -> Status {
                  published += elsewhere.size();
                  return success();
                },
                .on_checkpoint =
                    [this](const CheckpointSeen& seen) {
                      reported.push_back(seen.status ? "written" : seen.status.error().message());
                    }}) {
    RuntimeAccess::attach(writer.snapshot, 0, 2);
    RuntimeAccess::attach(writer.shards, 1, 2);
  }
  void come(std::uint32_t step, const WrittenShards& elsewhere) {
    writer.on_commit({.step = step, .snapshot = true});
    deliver(writer.snapshot, 0, train_key(step, 0), Snapshot{});
    deliver(writer.shards, 1, train_key(step, 0), elsewhere);
    act_all(writer);
  }
};

TEST(WriterByHand, ReportsACheckpointWhosePiecesNeverCameWhenTheNextOneIsWritten) {
  std::vector<std::string> reported;
  CheckpointWriter writer(
      {.in_background = false,
       .write = [](std::uint32_t, const auto&, const auto&) -> Status { return success(); },
       .on_checkpoint =
           [&](const CheckpointSeen& seen) {
             reported.push_back(std::to_string(seen.step) + ": " +
                                (seen.status ? "written" : seen.status.error().message()));
           }});
  RuntimeAccess::attach(writer.snapshot, 0, 2);
  RuntimeAccess::attach(writer.snapshot, 1, 2);
  for (const std::uint32_t step : {4, 6}) {
    writer.on_commit({.step = step, .snapshot = true});
    deliver(writer.snapshot, 0, train_key(step, 0), Snapshot{.stage = 0});
  }
  deliver(writer.snapshot, 1, train_key(6, 1), Snapshot{.stage = 1});
  act_all(writer);
  EXPECT_THAT(reported,
              ElementsAre("5: a writer failed, and the stages that had sent it their weights",
                          "7: written"));
  EXPECT_EQ(RuntimeAccess::effects(writer).credits.size(), 3u);
}

TEST(WriterByHand, PublishesNothingWhenAnotherProcessCouldNotWriteAndGoesOn) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("troupe_shared_writer_" + std::to_string(::getpid()));
  // What the other process has written before its disk was full, and of a step to come.
  const auto left = folder / ".step_00000005.partial-shards";
  const auto next = folder / ".step_00000009.partial-shards";
  for (const auto& place : {left, next}) std::filesystem::create_directories(place / "shard");
  SharedWriter shared(folder);
  shared.come(4, {.failure = Error(ErrorCode::io, "the disk of host2 is full")});
  EXPECT_THAT(shared.reported, ElementsAre("the disk of host2 is full"));
  EXPECT_EQ(shared.published, 0u);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(next));
  const auto effects = std::exchange(RuntimeAccess::effects(shared.writer), {});
  EXPECT_FALSE(is_finished(effects));
  EXPECT_EQ(effects.status->accepts_snapshot, true);
  EXPECT_EQ(effects.credits.size(), 2u);
  shared.come(8, {.shards = {ShardInfo{}}});
  EXPECT_THAT(shared.reported, ElementsAre("the disk of host2 is full", "written"));
  EXPECT_EQ(shared.published, 1u);
  EXPECT_TRUE(std::filesystem::exists(next));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe

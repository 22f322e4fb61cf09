// Messages that come earlier or later than they are needed, delivered by hand to a stage and to a
// reducer, most of them with staleness.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "actors/reducer.h"
#include "actors/stage.h"
#include "ops/models/models.h"
#include "runtime/flow/runtime_access.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <class T>
void deliver(InputPort& port, std::uint32_t edge, std::uint32_t step, std::uint32_t micro_batch,
             T value) {
  const Header header{.edge = edge,
                      .key = {step, Purpose::train, micro_batch},
                      .samples = 1,
                      .batch_samples = 2,
                      .micro_batches = 2};
  RuntimeAccess::deliver(port, {header, std::make_shared<const T>(std::move(value))});
}

std::vector<std::string> act_all(Actor& actor) {
  std::vector<std::string> labels;
  while (actor.ready()) labels.emplace_back(actor.act().name);
  return labels;
}

class LateStage : public ::testing::Test {
 protected:
  LateStage()
      : stage_({.program = network_program({.model = Mlp{.widths = {3}, .classes = 2},
                                            .samples = {.shape = {1, 2, 2}, .classes = 2}}),
                .schedule = {.credits = 2},
                .rate = {.lr = 0.1},
                .staleness = 1,
                .micro_batches = [](std::uint32_t) { return 2u; }}) {
    std::uint32_t edge = 0;
    for (InputPort* port : stage_.inputs()) RuntimeAccess::attach(*port, edge++, 8);
    for (OutputPort* port : stage_.outputs()) RuntimeAccess::attach(*port, edge++, 8);
    for (OutputPort* port : stage_.outputs()) RuntimeAccess::begin_incarnation(*port, 0);
    stage_.restore(nullptr, 0);
  }
  void give_micro_batch(std::uint32_t step, std::uint32_t micro_batch) {
    deliver(stage_.input, 0, step, micro_batch,
            Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)});
    deliver(stage_.output_gradient, 1, step, micro_batch,
            OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)});
  }
  void give_empty_sum(std::uint32_t step) {
    deliver(stage_.reduced, 2, step, 0, ReducedGradient{});
  }
  Stage stage_;
};

TEST_F(LateStage, UpdatesOnlyWhenAllItsMicroBatchesWentBack) {
  give_empty_sum(0);
  give_empty_sum(1);  // a reducer may be ahead
  give_micro_batch(0, 0);
  EXPECT_THAT(act_all(stage_), ElementsAre("collect", "F", "B"));
  EXPECT_FALSE(std::exchange(RuntimeAccess::effects(stage_), {}).vote);
  give_micro_batch(0, 1);
  EXPECT_THAT(act_all(stage_), ElementsAre("F", "B", "U"));
  const auto effects = std::exchange(RuntimeAccess::effects(stage_), {});
  ASSERT_TRUE(effects.vote);
  EXPECT_EQ(effects.vote->step, 0u);
}

TEST_F(LateStage, GivesTheLastMicroBatchOfAStepBackAtTheCommit) {
  give_empty_sum(0);
  give_micro_batch(0, 0);
  act_all(stage_);
  EXPECT_THAT(std::exchange(RuntimeAccess::effects(stage_), {}).credits, SizeIs(2));
  give_micro_batch(0, 1);
  act_all(stage_);
  EXPECT_THAT(std::exchange(RuntimeAccess::effects(stage_), {}).credits, IsEmpty());
  stage_.on_commit({.step = 0});
  EXPECT_THAT(std::exchange(RuntimeAccess::effects(stage_), {}).credits,
              SizeIs(3));  // with the sum's
}

TEST_F(LateStage, StaysAsItIsWhereASumIsEmptyAndCountsTheStep) {
  const StatePtr before = stage_.state();
  give_empty_sum(0);
  give_micro_batch(0, 0);
  give_micro_batch(0, 1);
  act_all(stage_);
  stage_.on_commit({.step = 0});
  EXPECT_EQ(stage_.state()->step, before->step + 1);
  EXPECT_EQ(stage_.state()->weights.raw(), before->weights.raw());
}

TEST_F(LateStage, AppliesASumInTheStepOfItsKey) {
  const StatePtr before = stage_.state();
  give_empty_sum(0);
  ReducedGradient sum{Tensor::zeros(before->weights.shape(), DType::f32), {}};
  sum.weights.data<float>()[0] = 1.0F;
  deliver(stage_.reduced, 2, 1, 0, std::move(sum));
  for (const std::uint32_t step : {0, 1}) {
    EXPECT_EQ(stage_.state()->weights.data<float>()[0], before->weights.data<float>()[0]);
    give_micro_batch(step, 0);
    give_micro_batch(step, 1);
    act_all(stage_);
    stage_.on_commit({.step = step});
  }
  EXPECT_EQ(stage_.state()->weights.data<float>()[0], before->weights.data<float>()[0] - 0.1F);
}

// The monitor may see a commit, and send the factor of the next step, before the stage sees it: the
// supervisor of another process passes commits on, but not messages.
TEST(StageOnAPlateau, KeepsTheFactorOfTheNextStepThatComesBeforeTheCommit) {
  Stage stage({.program = network_program({.model = Mlp{.widths = {3}, .classes = 2},
                                           .samples = {.shape = {1, 2, 2}, .classes = 2}}),
               .schedule = {.credits = 2},
               .rate = {.schedule = LearningRateSchedule::plateau, .lr = 1}});
  std::uint32_t edge = 0;
  for (InputPort* port : stage.inputs()) RuntimeAccess::attach(*port, edge++, 8);
  for (OutputPort* port : stage.outputs()) RuntimeAccess::attach(*port, edge++, 8);
  for (OutputPort* port : stage.outputs()) RuntimeAccess::begin_incarnation(*port, 0);
  stage.restore(nullptr, 0);
  std::uint32_t edge_of_factor = 0;
  while (stage.inputs()[edge_of_factor] != &stage.rate_factor) ++edge_of_factor;
  const auto give_step = [&](std::uint32_t step, float slope) {
    for (const std::uint32_t micro_batch : {0, 1}) {
      deliver(stage.input, 0, step, micro_batch,
              Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)});
      deliver(stage.output_gradient, 1, step, micro_batch,
              OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)});
    }
    act_all(stage);
    ReducedGradient sum{Tensor::zeros(stage.state()->weights.shape(), DType::f32), {}};
    sum.weights.data<float>()[0] = slope;
    deliver(stage.reduced, 2, step, 0, std::move(sum));
  };
  const auto first_weight = [&] { return stage.state()->weights.data<float>()[0]; };
  const float before = first_weight();
  deliver(stage.rate_factor, edge_of_factor, 0, 0, RateFactor{1});
  give_step(0, 4);
  EXPECT_EQ(act_all(stage).back(), "U");
  deliver(stage.rate_factor, edge_of_factor, 1, 0, RateFactor{0.5});
  act_all(stage);
  stage.on_commit({.step = 0});
  EXPECT_EQ(first_weight(), before - 4);
  give_step(1, 4);
  EXPECT_EQ(act_all(stage).back(), "U") << "the factor of step 1 was lost";
  stage.on_commit({.step = 1});
  EXPECT_EQ(first_weight(), before - 4 - 2);
  // Both factors gave their slots back.
  const auto credits = std::exchange(RuntimeAccess::effects(stage), {}).credits;
  EXPECT_EQ(std::ranges::count(credits, edge_of_factor, &Credit::edge), 2);
}

Tensor number(float value) {
  Tensor tensor = Tensor::zeros(Shape{32}, DType::f32);
  tensor.data<float>()[0] = value;
  return tensor;
}

/// One of two reducers of two replicas, of a micro-batch each.
class LateReducer : public ::testing::Test {
 protected:
  LateReducer() : reducer_({.shares = {1, 1}, .staleness = 1}) {
    RuntimeAccess::attach(reducer_.gradient, 0, 2);
    RuntimeAccess::attach(reducer_.partials, 1, 2);
    RuntimeAccess::attach(reducer_.chunks, 2, 2);
    RuntimeAccess::attach(reducer_.reduced, 3, 2);
    RuntimeAccess::attach(*reducer_.partial(1), 4, 2);
    RuntimeAccess::attach(reducer_.chunk, 5, 2);
    reducer_.restore(nullptr, 7);
  }
  void give_gradient(std::uint32_t step, float value) {
    deliver(reducer_.gradient, 0, step, 0, Gradient{number(value), number(0)});
  }
  /// What the other one sends.
  void give_partial(std::uint32_t step, float value) {
    deliver(reducer_.partials, 1, step, 1,
            PartialGradient{{{{0, 1}, number(value).narrow(0, 16)}}, 1, {number(0)}});
  }
  void give_chunk(std::uint32_t step) {
    deliver(reducer_.chunks, 2, step, 1, ReducedChunk{1, number(0).narrow(0, 16)});
  }
  /// "edge@step" of each packet since the last call.
  std::vector<std::string> sent() {
    act_all(reducer_);
    std::vector<std::string> packets;
    effects_ = std::exchange(RuntimeAccess::effects(reducer_), {});
    for (const Packet& packet : effects_.packets)
      packets.push_back(std::to_string(packet.header.edge) + "@" +
                        std::to_string(packet.header.key.step));
    return packets;
  }
  Reducer reducer_;
  RuntimeAccess::Effects effects_;
};

TEST_F(LateReducer, BeginsWithAnEmptySumForEachStepThatNoneCanComeFor) {
  EXPECT_THAT(sent(), ElementsAre("3@7"));
  const auto& sum = *static_cast<const ReducedGradient*>(effects_.packets[0].payload.get());
  EXPECT_FALSE(sum.weights.defined());
}

TEST_F(LateReducer, TakesTheNextStepsGradientsWhileItExchangesTheLast) {
  sent();
  give_gradient(7, 1);
  EXPECT_THAT(sent(), ElementsAre("4@7"));
  give_gradient(8, 10);
  EXPECT_THAT(sent(), ElementsAre("4@8"));
  EXPECT_THAT(effects_.credits, SizeIs(1));
  give_partial(7, 2);
  EXPECT_THAT(sent(), ElementsAre("5@7"));
  give_partial(8, 20);
  EXPECT_THAT(sent(), ElementsAre("5@8"));
  RuntimeAccess::credit(reducer_.reduced, {3, 0, 0});  // step 7 is whole
  give_chunk(7);
  EXPECT_THAT(sent(), ElementsAre("3@8"));
  const auto& sum = *static_cast<const ReducedGradient*>(effects_.packets[0].payload.get());
  EXPECT_EQ(sum.weights.data<float>()[0], 3.0F);
  EXPECT_THAT(sum.statistics, SizeIs(2));
}

TEST_F(LateReducer, SendsSumsInTheOrderOfTheirSteps) {
  sent();
  give_gradient(7, 1);
  give_gradient(8, 10);
  give_partial(7, 2);
  give_partial(8, 20);
  sent();
  RuntimeAccess::credit(reducer_.reduced, {3, 0, 0});
  give_chunk(7);
  give_chunk(8);
  EXPECT_THAT(sent(), ElementsAre("3@8", "3@9"));
}

TEST_F(LateReducer, RefusesGradientsOfAStepThatCannotHaveBegun) {
  sent();
  give_gradient(9, 1);
  try {
    reducer_.act();
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 9 arrived; the open steps are 7 to 8"));
  }
}

}  // namespace
}  // namespace troupe

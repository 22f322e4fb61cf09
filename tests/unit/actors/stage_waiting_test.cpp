// What a stage says it waits for and may hold, with messages delivered by hand.
#include <gtest/gtest.h>

#include "actors/stage.h"
#include "ops/models/models.h"
#include "runtime/flow/graph.h"
#include "runtime/flow/runtime_access.h"

namespace troupe {
namespace {

StageOptions stage_options() {
  return {.program = network_program({.model = Mlp{.widths = {3}, .classes = 2},
                                      .samples = {.shape = {1, 2, 2}, .classes = 2},
                                      .buckets = {1, 2}}),
          .schedule = {.credits = 2}};
}

template <class T>
void give(InputPort& port, std::uint32_t edge, const MessageKey& key, std::uint32_t of, T value) {
  const Header header{
      .edge = edge, .key = key, .samples = 1, .batch_samples = of, .micro_batches = of};
  RuntimeAccess::deliver(port, {header, std::make_shared<const T>(std::move(value))});
}

/// Both ways of micro-batch `index` of as many as `of`.
void give_micro_batch(Stage& stage, std::uint32_t index, std::uint32_t of) {
  const MessageKey key{0, Purpose::train, index};
  give(stage.input, 0, key, of, Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)});
  give(stage.output_gradient, 1, key, of, OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)});
}

/// With one slot at `scarce`, and as many as are needed everywhere else.
void begin(Stage& stage, const OutputPort& scarce) {
  std::uint32_t edge = 0;
  for (InputPort* port : stage.inputs()) RuntimeAccess::attach(*port, edge++, 8);
  for (OutputPort* port : stage.outputs())
    RuntimeAccess::attach(*port, edge++, port == &scarce ? 1 : 8);
  for (OutputPort* port : stage.outputs()) RuntimeAccess::begin_incarnation(*port, 0);
  stage.restore(nullptr, 0);
}

TEST(StageOptions, ARateThatLacksItsStepsIsRefusedWhenTheGraphIsBuilt) {
  StageOptions options = stage_options();
  options.rate.schedule = LearningRateSchedule::cosine;
  Graph graph;
  try {
    graph.add<Stage>("stage", options);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("LearningRateOptions::total_steps"),
              std::string::npos);
  }
  options.rate.total_steps = 5;
  const ActorRef<Stage> stage = graph.add<Stage>("stage", options);
  EXPECT_EQ(stage, graph.find<Stage>("stage"));
  EXPECT_NE(stage, graph.add<Stage>("other", options));
}

/// The only stage of a replica with a bucket a layer; whoever takes its input's gradient gives one
/// slot.
class TwoBuckets : public ::testing::Test {
 protected:
  TwoBuckets() : stage_(stage_options()) { begin(stage_, stage_.input_gradient); }
  void act_all() {
    while (stage_.ready()) stage_.act();
  }
  Stage stage_;
};

TEST_F(TwoBuckets, WaitForInputBeforeAnythingHasCome) {
  EXPECT_EQ(stage_.waiting(), Waiting::input);
}

TEST_F(TwoBuckets, WaitForInputWhenAllIsDone) {
  give_micro_batch(stage_, 0, 2);
  act_all();
  EXPECT_EQ(stage_.waiting(), Waiting::input);
}

// The second gradient was taken for its first bucket, so both inputs are empty.
TEST_F(TwoBuckets, WaitForASlotInTheMiddleOfTheWayBack) {
  give_micro_batch(stage_, 0, 2);
  give_micro_batch(stage_, 1, 2);
  act_all();
  ASSERT_FALSE(stage_.output_gradient.ready());
  EXPECT_EQ(stage_.waiting(), Waiting::credit);
}

// The proof that a graph cannot stand still goes by these rules; one place too few and it refuses
// graphs that run, one too many and it lets one pass that stops.
TEST(StageRules, HoldAsManyHalvesAsTheStageOwesWhereItCannotSendThem) {
  for (const std::uint32_t delay : {0u, 1u, 2u}) {
    StageOptions options = stage_options();
    options.schedule = {.credits = 8, .deferred_weight_gradients = delay};
    Stage stage(options);
    begin(stage, stage.gradient);
    constexpr std::uint32_t micro_batches = 8;
    for (std::uint32_t index = 0; index < micro_batches; ++index)
      give_micro_batch(stage, index, micro_batches);
    std::uint32_t halves = 0;
    while (stage.ready()) halves += stage.act().name == "B" ? 1 : 0;
    const std::uint32_t held = halves - 1;  // the first one's weight gradients had slots
    EXPECT_EQ(stage.firing_rules().internal_places.at(1).capacity, held)
        << "deferred weight gradients: " << delay;
  }
}

}  // namespace
}  // namespace troupe

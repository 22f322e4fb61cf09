// What a stage says it waits for, with messages delivered by hand.
#include <gtest/gtest.h>

#include "actors/stage.h"
#include "runtime/flow/inside.h"

namespace troupe {
namespace {

StageOptions stage_options() {
  const ModelOptions model{.name = "mlp", .height = 2, .width = 2, .widths = {3}, .classes = 2};
  NetworkProgramOptions program;
  program.model = model;
  program.buckets = {1, 2};
  return {.program = network_program(program), .schedule = {.credits = 2}, .buckets = 2};
}

/// The only stage of a replica with a bucket a layer; whoever takes its input's gradient gives one
/// slot.
class TwoBuckets : public ::testing::Test {
 protected:
  TwoBuckets() : stage_(stage_options()) {
    std::uint32_t edge = 0;
    for (InputPort* port : stage_.inputs()) Inside::attach(*port, edge++, 8);
    for (OutputPort* port : stage_.outputs())
      Inside::attach(*port, edge++, port == &stage_.input_gradient ? 1 : 8);
    for (OutputPort* port : stage_.outputs()) Inside::begin_generation(*port, 1, 0);
    stage_.restore(nullptr, 0);
  }
  template <class T>
  void give(InputPort& port, std::uint32_t edge, std::uint32_t micro_batch, T value) {
    const Header header{.edge = edge,
                        .key = {0, Purpose::train, micro_batch},
                        .samples = 1,
                        .batch_samples = 2,
                        .micro_batches = 2};
    Inside::deliver(port, {header, std::make_shared<const T>(std::move(value))});
  }
  void give_micro_batch(std::uint32_t index) {
    give(stage_.input, 0, index, Activation{Tensor::zeros(Shape{1, 1, 2, 2}, DType::f32)});
    give(stage_.output_gradient, 1, index, OutputGradient{Tensor::zeros(Shape{1, 2}, DType::f32)});
  }
  void act_all() {
    while (stage_.ready()) stage_.act();
  }
  Stage stage_;
};

TEST_F(TwoBuckets, WaitForInputBeforeAnythingHasCome) {
  EXPECT_EQ(stage_.waiting(), Waiting::input);
}

TEST_F(TwoBuckets, WaitForInputWhenAllIsDone) {
  give_micro_batch(0);
  act_all();
  EXPECT_EQ(stage_.waiting(), Waiting::input);
}

// The second gradient was taken for its first bucket, so both inputs are empty.
TEST_F(TwoBuckets, WaitForASlotInTheMiddleOfTheWayBack) {
  give_micro_batch(0);
  give_micro_batch(1);
  act_all();
  ASSERT_FALSE(stage_.output_gradient.ready());
  EXPECT_EQ(stage_.waiting(), Waiting::credit);
}

}  // namespace
}  // namespace troupe

#include "ops/tape.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "ops/loss.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/linear.h"
#include "ops/primitives/matmul.h"
#include "ops/primitives/parameter.h"
#include "ops/primitives/pooling.h"
#include "ops/primitives/reshape.h"
#include "runtime/error.h"

namespace troupe {
namespace {

Pass training() {
  Pass pass;
  pass.dtype = DType::f64;
  return pass;
}

Tensor values(std::initializer_list<double> numbers) {
  const std::vector<double> list(numbers);
  return Tensor::from<double>(Shape{static_cast<std::int64_t>(list.size())}, list);
}

// What happened to a Probe, in order.
struct Log {
  std::vector<std::string> entries;
};

struct Probe {
  static constexpr std::string_view name = "probe";

  std::string label;
  Log* log = nullptr;
  std::shared_ptr<int> held = {};  // stands for what a primitive saves

  Tensor forward(const Pass&, const Tensor& x) { return x.clone(); }
  void input_gradient(const Pass&, const Tensor& grad, std::span<InputGradient> inputs) {
    log->entries.push_back(label + (inputs[0].wanted ? ".input" : ".nothing"));
    if (inputs[0].wanted) inputs[0].grad = grad;
  }
  void weight_gradient(const Pass&, const Tensor&) { log->entries.push_back(label + ".weight"); }
  std::array<ParameterIndex, 1> parameters() const { return {ParameterIndex{0}}; }
};

using Entries = std::vector<std::string>;

TEST(Tape, CountsNoWeightThatAPrimitiveHasSaved) {
  const std::vector<Tensor> weights{Tensor::zeros({3, 5}, DType::f64)};
  Pass pass = training();
  pass.weights = weights;
  Tape tape(pass);
  const Value x = tape.input(Tensor::zeros({4, 3}, DType::f64), true);
  tape.record(primitives::Matmul{}, x, tape.record(primitives::Parameter{{0}}));
  tape.seal();
  const Tensor like_x = Tensor::zeros({4, 3}, DType::f64);
  EXPECT_EQ(tape.saved_bytes(), like_x.storage()->bytes());
}

TEST(Tape, RefusesAParameterThatTheOutputDoesNotDependOn) {
  const std::vector<Tensor> weights{Tensor::zeros({1}, DType::f64)};
  Pass pass = training();
  pass.weights = weights;
  Tape tape(pass);
  const Value x = tape.input(values({1}), true);
  const Value y = tape.record(primitives::Relu{}, x);
  tape.record(primitives::Parameter{{0}});
  EXPECT_THROW(tape.backward(y, values({1})), Error);
}

TEST(Tape, RunsBothHalvesOfAnOperationBeforeTheNext) {
  Log log;
  Tape tape(training());
  const Value x = tape.input(values({1}), false);
  const Value y = tape.record(Probe{"b", &log}, tape.record(Probe{"a", &log}, x));
  tape.backward(y, values({1}));
  EXPECT_EQ(log.entries, (Entries{"b.input", "b.weight", "a.nothing", "a.weight"}));
}

TEST(Tape, RunsTheWeightHalvesLaterWhereAsked) {
  Log log;
  Tape tape(training());
  const Value x = tape.input(values({1}), true);
  const Value y = tape.record(Probe{"b", &log}, tape.record(Probe{"a", &log}, x));
  EXPECT_EQ(tape.backward_inputs(y, values({1})).size(), 1u);
  EXPECT_EQ(log.entries, (Entries{"b.input", "a.input"}));
  tape.backward_weights();
  EXPECT_EQ(log.entries, (Entries{"b.input", "a.input", "b.weight", "a.weight"}));
}

TEST(Tape, StopsAtAMarkAndGoesOnFromThere) {
  Log log;
  Tape tape(training());
  const Value x = tape.input(values({1}), true);
  const Value a = tape.record(Probe{"a", &log}, x);
  const std::size_t mark = tape.recorded();
  const Value c = tape.record(Probe{"c", &log}, tape.record(Probe{"b", &log}, a));
  tape.begin_backward(c, values({3}));
  EXPECT_EQ(log.entries, Entries{});
  tape.backward_to(mark);
  EXPECT_EQ(log.entries, (Entries{"c.input", "c.weight", "b.input", "b.weight"}));
  EXPECT_EQ(tape.recorded(), mark);
  tape.backward_to(mark);  // nothing is left to do
  EXPECT_EQ(log.entries.size(), 4u);
  tape.backward_to(0);
  EXPECT_EQ(log.entries.size(), 6u);
  EXPECT_EQ(tape.end_backward().at(0).data<double>()[0], 3);
}

TEST(Tape, RunsTheWeightHalvesInPartsAfterAllInputHalves) {
  Log log;
  Tape tape(training());
  const Value x = tape.input(values({1}), true);
  const Value a = tape.record(primitives::Relu{}, tape.record(Probe{"a", &log}, x));
  const std::size_t mark = tape.recorded();
  const Value c = tape.record(Probe{"c", &log}, tape.record(Probe{"b", &log}, a));
  EXPECT_EQ(tape.backward_inputs(c, values({3})).at(0).data<double>()[0], 3);
  log.entries.clear();
  tape.backward_to(mark);
  EXPECT_EQ(log.entries, (Entries{"c.weight", "b.weight"}));
  EXPECT_EQ(tape.recorded(), mark);
  tape.backward_to(0);
  EXPECT_EQ(log.entries, (Entries{"c.weight", "b.weight", "a.weight"}));
  EXPECT_EQ(tape.recorded(), 0u);
}

TEST(Tape, LeavesTheGradientThatItWasGivenAloneWhileItStops) {
  // The value before the mark gets its gradient from after it, by a reshape that shares memory, and
  // adds to it when the walk goes on.
  std::vector<double> slot = {1, 10};
  Tape tape(training());
  const Value x = tape.input(values({1, 2}), true);
  const Value twice = tape.record(primitives::Arithmetic{ArithmeticOperation::add}, x, x);
  const std::size_t mark = tape.recorded();
  const Value flat = tape.record(primitives::Reshape{Shape{2}}, twice);
  const Value y = tape.record(primitives::Arithmetic{ArithmeticOperation::add}, flat, x);
  tape.begin_backward(
      y, Tensor::view(Storage::wrap(slot.data(), 16, {}, nullptr), 0, Shape{2}, DType::f64));
  tape.backward_to(mark);
  tape.backward_to(0);
  EXPECT_EQ(tape.end_backward().at(0).data<double>()[1], 30);
  EXPECT_EQ(slot, (std::vector<double>{1, 10}));
}

TEST(Tape, FreesWhatAnOperationSavedOnceBothHalvesRan) {
  Log log;
  const auto first = std::make_shared<int>(), second = std::make_shared<int>();
  const std::weak_ptr<int> watched = second;
  Tape tape(training());
  const Value x = tape.input(values({1}), false);
  const Value y = tape.record(Probe{"a", &log, first}, x);
  const Value z = tape.record(Probe{"b", &log, second}, y);
  EXPECT_EQ(first.use_count(), 2);
  tape.backward_inputs(z, values({1}));
  EXPECT_EQ(second.use_count(), 2);
  tape.backward_weights();
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 1);
  EXPECT_EQ(tape.saved_bytes(), tape.tensor(x).storage()->bytes() * 3);  // until it is sealed
}

// Its input half makes the weights' gradients too, as batch norm's does.
struct EarlyProbe {
  static constexpr std::string_view name = "early_probe";

  Log* log = nullptr;

  Tensor forward(const Pass&, const Tensor& x) { return x.clone(); }
  void input_gradient(const Pass&, const Tensor& grad, std::span<InputGradient> inputs) {
    inputs[0].grad = grad.clone();
  }
  void weight_gradient(const Pass&) { log->entries.emplace_back("weight"); }
  std::array<ParameterIndex, 1> parameters() const { return {ParameterIndex{0}}; }
};

TEST(Tape, KeepsBetweenTheHalvesOnlyGradientsThatAreReadAgain) {
  Log log;
  const auto kept = [&](auto probe) {
    Tape tape(training());
    const Value y = tape.record(std::move(probe), tape.input(values({1}), true));
    tape.seal();
    tape.backward_inputs(y, values({1}));
    const std::size_t bytes = tape.saved_bytes();
    tape.backward_weights();
    return bytes;
  };
  EXPECT_EQ(kept(EarlyProbe{&log}), 0u);
  EXPECT_EQ(log.entries, Entries{"weight"}) << "the mark of deferred weights is not the gradient";
  EXPECT_GT(kept(Probe{"a", &log}), 0u);
}

TEST(Tape, KeepsNothingThatNobodyWants) {
  Tape tape(training());
  const Value x = tape.input(values({1, -1}), false);
  tape.record(primitives::Relu{}, x);
  tape.seal();
  EXPECT_EQ(tape.saved_bytes(), 0u);
}

TEST(Tape, KeepsTheAskedValueWhenSealed) {
  Tape tape(training());
  const Value x = tape.input(values({1, -1}), true);
  const Value y = tape.record(primitives::Relu{}, x);
  tape.seal(y);
  EXPECT_FALSE(tape.tensor(x).defined());
  EXPECT_TRUE(tape.tensor(y).defined());
  tape.seal();
  EXPECT_FALSE(tape.tensor(y).defined());
}

TEST(Tape, NeverWritesIntoTheGradientThatItWasGiven) {
  Tape tape(training());
  const Value x = tape.input(values({1, 2}), true);
  const Value twice = tape.record(primitives::Arithmetic{ArithmeticOperation::add}, x, x);
  const Value y = tape.record(primitives::Arithmetic{ArithmeticOperation::add}, twice, x);
  Tensor grad = values({1, 10});
  auto* memory = grad.data<double>();
  const auto storage = grad.storage();
  const auto result = tape.backward(y, std::move(grad));
  EXPECT_EQ(result.at(0).data<double>()[1], 30);
  EXPECT_EQ(memory[0], 1);
  EXPECT_EQ(memory[1], 10);
}

TEST(Tape, NeverWritesIntoAGradientWhoseMemorySomebodyElseOwns) {
  std::vector<double> slot = {1, 10};  // as a message's slot: no other Tensor refers to it
  Tape tape(training());
  const Value x = tape.input(values({1, 2}), true);
  const Value twice = tape.record(primitives::Arithmetic{ArithmeticOperation::add}, x, x);
  const Value flat = tape.record(primitives::Reshape{Shape{2}}, twice);
  const Value y = tape.record(primitives::Arithmetic{ArithmeticOperation::add}, flat, x);
  tape.backward(y,
                Tensor::view(Storage::wrap(slot.data(), 16, {}, nullptr), 0, Shape{2}, DType::f64));
  EXPECT_EQ(slot, (std::vector<double>{1, 10}));
}

TEST(Tape, RefusesAGradientOfAnotherShape) {
  Tape tape(training());
  const Value y = tape.record(primitives::Relu{}, tape.input(values({1, 2}), true));
  EXPECT_THROW(tape.backward(y, values({1})), Error);
}

TEST(Tape, SaysSoWhereWeightsWouldGetNoGradient) {
  Log log;
  Tape tape(training());
  const Value x = tape.input(values({1}), true);
  const Value y = tape.record(primitives::Relu{}, x);
  tape.record(Probe{"unused", &log}, x);
  try {
    tape.backward(y, values({1}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_graph);
    EXPECT_NE(error.message().find("probe"), std::string::npos);
  }
}

template <class Primitive>
void expect_refused(Primitive primitive, const Shape& x, std::string_view part) {
  Tape tape(training());
  const Value value = tape.input(Tensor::zeros(x, DType::f64), true);
  try {
    tape.record(primitive, value);
    FAIL() << Primitive::name << " took " << to_string(x);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_shape);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
    EXPECT_NE(error.message().find(Primitive::name), std::string::npos) << error.what();
  }
}

TEST(Primitives, RefuseShapesThatDoNotFit) {
  const ConvolutionOptions o{.in_channels = 3, .out_channels = 2};
  expect_refused(primitives::Convolution2d{{}, o}, {2, 4, 5, 5}, "4 channels");
  expect_refused(primitives::Convolution2d{{}, o}, {2, 75}, "[2, 75]");
  expect_refused(primitives::Convolution2d{{}, o}, {2, 3, 2, 5}, "[2, 3, 2, 5]");
  expect_refused(primitives::Linear{{}, {.in_features = 3}}, {2, 4}, "(N, ..., 3)");
  expect_refused(primitives::Linear{{}, {.in_features = 3}}, {2, 3, 1, 1}, "[2, 3, 1, 1]");
  expect_refused(primitives::MaxPool2d{}, {2, 3, 1, 5}, "[2, 3, 1, 5]");
  expect_refused(primitives::MaxPool2d{{.padding_h = 2}}, {2, 3, 5, 5}, "padding 2x0");
  expect_refused(primitives::AveragePool2d{{.stride_w = 0}}, {2, 3, 5, 5}, "stride 2x0");
  expect_refused(primitives::AdaptiveAveragePool2d{0, 1}, {2, 3, 5, 5}, "0x1");
}

TEST(Loss, RefusesShapesAndTypesThatDoNotFit) {
  const auto refusal = [](const Shape& logits, const Tensor& targets) -> std::string {
    try {
      softmax_cross_entropy({}, Tensor::zeros(logits), targets, 1.0, true);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_shape);
      return error.message();
    }
    return "nothing";
  };
  const auto targets = [](const Shape& shape) { return Tensor::zeros(shape, DType::i64); };
  EXPECT_NE(refusal({2, 3}, targets({3})).find("[2, 3], targets [3]"), std::string::npos);
  EXPECT_NE(refusal({2, 3}, targets({2, 1})).find("targets [2, 1]"), std::string::npos);
  EXPECT_NE(refusal({6}, targets({6})).find("logits are [6]"), std::string::npos);
  EXPECT_NE(refusal({2, 0}, targets({2})).find("logits are [2, 0]"), std::string::npos);
  EXPECT_NE(refusal({2, 3}, Tensor::zeros({2})).find("f32"), std::string::npos);
}

TEST(Loss, RefusesATargetThatIsNoClass) {
  for (const std::int64_t target : {std::int64_t{-1}, std::int64_t{3}}) {
    const Tensor targets = Tensor::from<std::int64_t>(Shape{1}, std::span(&target, 1));
    for (const DType dtype : {DType::f32, DType::f64})
      EXPECT_THROW(softmax_cross_entropy({}, Tensor::zeros(Shape{1, 3}, dtype), targets, 1.0, true),
                   Error);
  }
}

TEST(Primitives, RefuseToTrainABatchNormOnOneValueAChannel) {
  Tape tape(training());
  Pass pass = training();
  const std::vector<Tensor> weights = {values({1, 1, 1}), values({0, 0, 0})};
  pass.weights = weights;
  tape = Tape(pass);
  const Value x = tape.input(Tensor::zeros(Shape{1, 3}, DType::f64), true);
  EXPECT_THROW(tape.record(primitives::BatchNorm2d{.weight = {0}, .bias = {1}}, x), Error);
}

}  // namespace
}  // namespace troupe

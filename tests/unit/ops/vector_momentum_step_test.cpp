#include <algorithm>

#include "runtime/error.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

struct Case {
  MomentumStep factors;
  bool first_step = false;
};

class VectorMomentumStep : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Factors, VectorMomentumStep,
    testing::Values(
        Case{{}}, Case{{.weight_decay = 0.01}}, Case{{.momentum = 0.9}, true},
        Case{{.momentum = 0.9, .weight_decay = 0.01}},
        Case{{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
        Case{{.momentum = 0.9, .nesterov = true}, true},
        Case{{.momentum = 0.9, .weight_decay = 0.01, .scaling = {.limit = 0.25, .factor = -0.3}}}));

TEST_P(VectorMomentumStep, FollowsTheUpdateRule) {
  auto [o, first_step] = GetParam();
  o.lr = 0.1;
  constexpr std::int64_t count = 30011;
  const Tensor weights = vector_of(random_values(count, 1));
  const Tensor gradient = vector_of(random_values(count, 2));
  const Tensor momentum = vector_of(random_values(count, 3));
  std::vector<double> new_weights, buffers;
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = weights.data<float>()[i];
    const double limited =
        std::clamp(double{gradient.data<float>()[i]}, -o.scaling.limit, o.scaling.limit);
    const double g = o.scaling.factor * limited + o.weight_decay * w;
    const double buffer = first_step ? g : o.momentum * momentum.data<float>()[i] + g;
    buffers.push_back(buffer);
    const double direction = o.momentum == 0 ? g : o.nesterov ? g + o.momentum * buffer : buffer;
    new_weights.push_back(w - o.lr * direction);
  }
  const auto run = [&, o = o, first_step = first_step](const Stream& stream, bool in_place,
                                                       bool want_momentum) {
    Tensor to = in_place ? weights.clone() : Tensor::empty({count}, DType::f32, Device::cpu());
    Tensor to_momentum =
        in_place ? momentum.clone() : Tensor::empty({count}, DType::f32, Device::cpu());
    const Tensor& from = in_place ? to : weights;
    const Tensor& from_momentum = in_place ? to_momentum : momentum;
    table().momentum_step(
        stream, {{o, from, gradient, first_step ? Tensor() : from_momentum, to, to_momentum}});
    return want_momentum ? to_momentum : to;
  };
  const Tensor result = on_any_threads([&](const Stream& s) { return run(s, false, false); });
  EXPECT_LT(distance(values_of(result), new_weights), 5e-7);
  expect_same_bits(run({}, true, false), result);
  if (o.momentum == 0) return;
  const Tensor kept = on_any_threads([&](const Stream& s) { return run(s, false, true); });
  EXPECT_LT(distance(values_of(kept), buffers), 5e-7);
  expect_same_bits(run({}, true, true), kept);
}

TEST(VectorMomentumStepWithoutMomentum, NeedsNoMomentumArrays) {
  const Tensor weights = vector_of({1, 2, 3});
  table().momentum_step({}, {{{.lr = 1}, weights, vector_of({1, 1, 1}), {}, weights, {}}});
  EXPECT_EQ(values_of(weights), (std::vector<float>{0, 1, 2}));
}

TEST(VectorMomentumStepErrors, NamesTheArrayThatDoesNotFit) {
  const Tensor weights = vector_of({1, 2, 3}), momentum = vector_of({0, 0});
  const Tensor gradient = vector_of({1, 1, 1});
  const auto step = [](const MomentumUpdate& update) { table().momentum_step({}, {update}); };
  EXPECT_THROW(step({{}, weights, vector_of({1}), {}, weights, {}}), Error);
  EXPECT_THROW(step({{.momentum = 0.9}, weights, gradient, {}, weights, {}}), Error);
  try {
    step({{.momentum = 0.9}, weights, gradient, momentum, weights, momentum});
    FAIL() << "two values of momentum for three weights";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("momentum"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("3 elements"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace troupe

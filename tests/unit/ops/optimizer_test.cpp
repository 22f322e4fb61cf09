// What holds for any optimizer: named ones, and one of a user with two state tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "ops/models/models.h"
#include "ops/nn/network.h"
#include "ops/optim/optimizers.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using testing::HasSubstr;

/// Counts the updates of each weight in one state tensor and sums gradients in the other.
struct OwnOptimizer {
  static constexpr std::string_view name = "own";

  std::vector<std::string> state_names() const { return {"count", "sum"}; }
  void update(const Stream&, const OptimizerStep& step, const OptimizerSlice& slice) const {
    for (std::int64_t i = 0; i < slice.weights.element_count(); ++i) {
      const auto before = [&](std::size_t s) {
        return slice.state[s].defined() ? slice.state[s].data<float>()[i] : 0.0f;
      };
      slice.new_state[0].data<float>()[i] = before(0) + 1;
      slice.new_state[1].data<float>()[i] = before(1) + slice.gradient.data<float>()[i];
      slice.new_weights.data<float>()[i] =
          slice.weights.data<float>()[i] -
          static_cast<float>(step.lr) * slice.new_state[1].data<float>()[i];
    }
  }
};

class SmallNetwork : public testing::Test {
 protected:
  SmallNetwork() { network_.use(initial_state(network_.spec(), DType::f32, 3)); }

  Tensor gradient() const {
    Tensor result = network_.state()->weights.clone();
    for (float& value : result.elements<float>()) value = 0.25f;
    return result;
  }

  static Network make() {
    Model model = ModelSource(Mlp{.widths = {4}}).make({.shape = {1, 28, 28}, .classes = 10});
    const std::size_t blocks = model.blocks.size();
    return Network(std::move(model), 0, blocks, DType::f32, Stream{});
  }
  Network network_ = make();
};

TEST_F(SmallNetwork, KeepsTheStateTensorsOfAnyOptimizerFromStepToStep) {
  for (int step = 0; step < 3; ++step)
    network_.use(network_.step(OwnOptimizer{}, 0.1, gradient(), {}));
  const auto& kept = network_.state()->optimizer_state;
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].name, "count");
  EXPECT_EQ(kept[0].tensor.data<float>()[0], 3.0f);
  EXPECT_EQ(kept[1].tensor.data<float>()[0], 0.75f);
}

TEST_F(SmallNetwork, WritesAndReadsTheStateTensorsOfAnyOptimizer) {
  network_.use(network_.step(OwnOptimizer{}, 0.1, gradient(), {}));
  const auto named = named_tensors(network_.spec(), *network_.state(), true);
  const std::string first = network_.spec().parameters().front().name;
  EXPECT_TRUE(std::ranges::any_of(
      named, [&](const NamedTensor& one) { return one.name == "optimizer.sum." + first; }));
  const StatePtr back = state_from(network_.spec(), DType::f32, TensorSource::of(named), 1,
                                   OwnOptimizer{}.state_names(), true);
  ASSERT_EQ(back->optimizer_state.size(), 2u);
  EXPECT_EQ(back->optimizer_state[0].name, "count");
  EXPECT_EQ(back->optimizer_state[1].tensor.data<float>()[0], 0.25f);
}

/// Keeps the number of updates before the last one.
struct UpdateCounter {
  static constexpr std::string_view name = "counter";
  std::vector<std::string> state_names() const { return {"updates"}; }
  void update(const Stream&, const OptimizerStep& step, const OptimizerSlice& slice) const {
    std::ranges::fill(slice.new_state[0].elements<float>(), static_cast<float>(step.updates));
    std::ranges::copy(slice.weights.elements<float>(),
                      Tensor(slice.new_weights).elements<float>().begin());
  }
};

TEST_F(SmallNetwork, TellsAnOptimizerTheUpdatesSoFarNotTheSteps) {
  const std::vector<Tensor> none, some{gradient()};
  for (const auto& gradients : {none, none, some, none, some, some})
    network_.use(network_.step(UpdateCounter{}, 0.1, gradients, {}));
  EXPECT_EQ(network_.state()->step, 6);
  EXPECT_EQ(network_.state()->updates, 3);
  EXPECT_EQ(network_.state()->optimizer_state.at(0).tensor.data<float>()[0], 2.0f);
}

/// Moves weights without a gradient.
struct AddsOne {
  static constexpr std::string_view name = "adds_one";
  std::vector<std::string> state_names() const { return {}; }
  void update(const Stream&, const OptimizerStep&, const OptimizerSlice& slice) const {
    std::ranges::transform(slice.weights.elements<float>(),
                           Tensor(slice.new_weights).elements<float>().begin(),
                           [](float weight) { return weight + 1; });
  }
};

/// Notes how many updates it is given at once.
struct OptimizerOfAll {
  static constexpr std::string_view name = "of_all";
  static inline std::vector<std::size_t> given;

  std::vector<std::string> state_names() const { return {}; }
  void update(const Stream& stream, const OptimizerStep& step, const OptimizerSlice& slice) const {
    Sgd{}.update(stream, step, slice);
  }
  static void update_all(const Stream& stream, std::span<const UpdateBy<OptimizerOfAll>> updates) {
    given.push_back(updates.size());
    for (const auto& [rule, step, slice] : updates) rule.update(stream, step, slice);
  }
};

TEST_F(SmallNetwork, UpdatesAllBucketsAndGroupsAtOnce) {
  const Optimizer groups =
      Optimizer(OptimizerOfAll{})
          .with_groups({{.parameters = {"*.bias"}, .optimizer = OptimizerOfAll{}, .lr = 0.2}});
  const Tensor whole = gradient();
  const std::int64_t half = network_.spec().parameters().back().offset;
  const std::vector<Tensor> buckets{whole.narrow(half, whole.element_count() - half),
                                    whole.narrow(0, half)};
  OptimizerOfAll::given.clear();
  const StatePtr next = network_.step(groups, 0.1, buckets, {});
  EXPECT_THAT(OptimizerOfAll::given, testing::ElementsAre(network_.spec().parameters().size()))
      << "weights and biases alternate";
  const StatePtr expected = network_.step(groups, 0.1, whole, {});
  EXPECT_EQ(std::memcmp(next->weights.raw(), expected->weights.raw(), next->weights.bytes()), 0);
  OptimizerOfAll::given.clear();
  (void)network_.step(groups.with_clip_value(0.1), 0.1, buckets, {});
  EXPECT_THAT(OptimizerOfAll::given, testing::ElementsAre(network_.spec().parameters().size()));
}

// It inherits `update_all`, which is for the updates of another type.
struct HalfSgd : Sgd {
  static constexpr std::string_view name = "half_sgd";
  void update(const Stream& stream, const OptimizerStep& step, const OptimizerSlice& slice) const {
    Sgd::update(stream, {.updates = step.updates, .lr = step.lr / 2}, slice);
  }
};

TEST_F(SmallNetwork, IsUpdatedByAnOptimizerThatDerivesFromAnother) {
  const StatePtr next = network_.step(HalfSgd{}, 0.2, gradient(), {});
  const StatePtr expected = network_.step(Sgd{}, 0.1, gradient(), {});
  EXPECT_EQ(std::memcmp(next->weights.raw(), expected->weights.raw(), next->weights.bytes()), 0);
}

TEST_F(SmallNetwork, HasTheSameBitsIfItsGradientIsScaledInCopies) {
  Tensor whole = gradient();
  for (std::int64_t e = 0; e < whole.element_count(); ++e)
    whole.data<float>()[e] = 0.001f * static_cast<float>(e % 700 - 350);
  const auto weights = [&](const Optimizer& optimizer, double lr, double norm) {
    const Optimizer scaling = optimizer.with_clip_value(0.1).with_clip_norm(1).at({}, 0, norm);
    return network_.step(scaling, lr, whole, {})->weights;
  };
  const Tensor copied = weights(HalfSgd{}, 0.2, 3), expected = weights(Sgd{}, 0.1, 3);
  EXPECT_EQ(std::memcmp(copied.raw(), expected.raw(), copied.bytes()), 0);
  EXPECT_NE(std::memcmp(copied.raw(), weights(Sgd{}, 0.1, 0).raw(), copied.bytes()), 0);
}

TEST_F(SmallNetwork, IsUpdatedByTheOptimizersOfItsGroups) {
  const auto with_bias_by = [&](const Optimizer& rule, double lr) {
    return Optimizer(OptimizerOfAll{})
        .with_groups({{.parameters = {"*.bias"}, .optimizer = rule, .lr = lr}});
  };
  const StatePtr next = network_.step(with_bias_by(HalfSgd{}, 0.2), 0.3, gradient(), {});
  const StatePtr expected = network_.step(with_bias_by(OptimizerOfAll{}, 0.1), 0.3, gradient(), {});
  EXPECT_EQ(std::memcmp(next->weights.raw(), expected->weights.raw(), next->weights.bytes()), 0);
}

TEST_F(SmallNetwork, ClipsTheGradientInACopyBeforeTheUpdate) {
  Tensor large = gradient();
  const std::int64_t half = large.element_count() / 2;
  for (std::int64_t i = 0; i < half; ++i) large.data<float>()[i] = -4.0f;
  const Tensor before = large.clone();
  for (const double limit : {0.0, 0.125, 1.0}) {
    const Optimizer optimizer =
        Optimizer(OwnOptimizer{})
            .with_groups({{.parameters = {"*.bias"}, .optimizer = OwnOptimizer{}}})
            .with_clip_value(limit);
    const StatePtr next = network_.step(optimizer, 0.1, large, {});
    const float* sums = next->optimizer_state.at(1).tensor.data<float>();
    EXPECT_EQ(sums[0], limit == 0 ? -4.0f : static_cast<float>(-limit));
    EXPECT_EQ(sums[large.element_count() - 1], limit == 0.125 ? 0.125f : 0.25f);
  }
  EXPECT_EQ(std::memcmp(large.raw(), before.raw(), before.bytes()), 0) << "others share it";
}

TEST_F(SmallNetwork, ScalesTheGradientToTheNormThatIsAllowed) {
  const Tensor whole = gradient();
  const auto sum = [](const Tensor& squares) {
    double total = 0;
    for (const double square : squares.elements<double>()) total += square;
    return total;
  };
  const Tensor squares = network_.gradient_squares(OwnOptimizer{}, {whole});
  EXPECT_EQ(squares.shape(), Shape{std::ssize(network_.spec().parameters())});
  EXPECT_EQ(sum(squares), 0.0625 * static_cast<double>(network_.spec().parameter_count()));
  EXPECT_EQ(sum(network_.gradient_squares(OwnOptimizer{}, {})), 0)
      << "of a step without a gradient";
  const Optimizer frozen =
      Optimizer(OwnOptimizer{})
          .with_groups({{.parameters = {"*.bias"}, .optimizer = OwnOptimizer{}, .lr = 0}});
  EXPECT_LT(sum(network_.gradient_squares(frozen, {whole})), sum(squares));
  const double norm = std::sqrt(sum(squares));
  const Optimizer optimizer = Optimizer(OwnOptimizer{}).with_clip_norm(norm / 2);
  const auto first = [&](double of) {
    const StatePtr next = network_.step(optimizer.at({}, 0, of), 0.1, whole, {});
    return next->optimizer_state.at(1).tensor.data<float>()[0];
  };
  EXPECT_FLOAT_EQ(first(norm), 0.125f);
  EXPECT_EQ(first(norm / 4), 0.25f) << "small gradients stay as they are";
  EXPECT_TRUE(std::isnan(first(std::nan("")))) << "as PyTorch: no gradient hides that it diverged";
}

TEST_F(SmallNetwork, HasTheSameBitsWithAScaledGradient) {
  Tensor whole = gradient();
  for (std::int64_t e = 0; e < whole.element_count(); ++e)
    whole.data<float>()[e] = 0.001f * static_cast<float>(e % 700 - 350);
  const double norm = 3;
  for (const Optimizer& plain :
       {Optimizer(Sgd{.momentum = 0.9, .weight_decay = 0.1}), Optimizer(AdamW{})})
    for (const Optimizer& optimizer :
         {plain, plain.with_clip_norm(1), plain.with_clip_value(0.125)}) {
      network_.use(initial_state(network_.spec(), DType::f32, 3));
      const StatePtr expected =
          network_.step(optimizer.at({}, 0, norm), 0.1, whole, std::vector<Tensor>{});
      EXPECT_NE(std::memcmp(expected->weights.raw(), network_.state()->weights.raw(),
                            expected->weights.bytes()),
                0);
      for (const double scale : {0x1p-30, 1.0, 0x1p16, 0x1p126}) {
        Tensor scaled = whole.clone();
        for (float& value : scaled.elements<float>()) value *= static_cast<float>(scale);
        const StatePtr next =
            network_.step(optimizer.at({}, 0, norm, scale), 0.1, scaled, std::vector<Tensor>{});
        EXPECT_EQ(std::memcmp(next->weights.raw(), expected->weights.raw(), next->weights.bytes()),
                  0)
            << optimizer.name() << " with scale " << scale;
      }
    }
}

TEST_F(SmallNetwork, EvaluatesTheMovingAverageOfItsWeights) {
  const Optimizer plain{Sgd{}};
  const Tensor x = Tensor::from<float>({1, 1, 28, 28}, std::vector<float>(784, 0.5f));
  const auto after = [&](const Optimizer& optimizer, int steps) {
    network_.use(initial_state(network_.spec(), DType::f32, 1));
    for (int step = 0; step < steps; ++step)
      network_.use(network_.step(optimizer, 0.1, gradient(), {}));
    return network_.evaluate(x).clone();
  };
  const auto values = [](const Tensor& y) {
    return std::vector<float>(y.elements<float>().begin(), y.elements<float>().end());
  };
  EXPECT_EQ(values(after(plain.with_average(0.5), 1)), values(after(plain, 1)))
      << "it begins with the first update's weights";
  const Tensor averaged = after(plain.with_average(0.5), 2);
  const Tensor trained = network_.forward(x, {}, false)->result().clone();
  EXPECT_EQ(values(trained), values(after(plain, 2))) << "training uses the weights themselves";
  EXPECT_NE(values(averaged), values(trained));
}

TEST_F(SmallNetwork, KeepsPaddingOfWeightsZeroWithAnyOptimizer) {
  Tensor gradients = gradient();
  network_.spec().clear_padding({}, gradients);
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}), Optimizer(Adam{}),
        Optimizer(Adam{.epsilon = 0}), Optimizer(AdamW{.epsilon = 1e-60}),
        Optimizer(AdamW{}).with_groups(
            {{.parameters = {"*.bias"}, .optimizer = Adam{.epsilon = 0}}}),
        Optimizer(AddsOne{}), Optimizer(Sgd{}).with_average(0.5)}) {
    network_.use(initial_state(network_.spec(), DType::f32, 3));
    for (int step = 0; step < 2; ++step)
      network_.use(network_.step(optimizer.at({.lr = 0.1}, 0), 0.1, gradients, {}));
    Tensor weights = network_.state()->weights.clone();
    for (Tensor& parameter : network_.spec().parameter_views(weights))
      std::ranges::fill(parameter.elements<float>(), 0.0f);
    EXPECT_THAT(weights.elements<float>(), testing::Each(0.0f)) << optimizer.name();
  }
}

TEST_F(SmallNetwork, DropsTheStateTensorsOfAnotherOptimizer) {
  network_.use(network_.step(OwnOptimizer{}, 0.1, gradient(), {}));
  network_.use(network_.step(Sgd{.momentum = 0.5}, 0.1, gradient(), {}));
  ASSERT_EQ(network_.state()->optimizer_state.size(), 1u);
  EXPECT_EQ(network_.state()->optimizer_state[0].name, "momentum");
}

class OptimizerOfSlices : public testing::TestWithParam<Optimizer> {};
INSTANTIATE_TEST_SUITE_P(
    , OptimizerOfSlices,
    testing::Values(Sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
                    Adam{.weight_decay = 0.01}, AdamW{}),
    [](const auto& info) { return std::string(info.param.name()); });

TEST_P(OptimizerOfSlices, GivesTheSameBitsForAnyDivision) {
  constexpr std::int64_t count = 101;
  const auto filled = [](double scale) {
    Tensor result = Tensor::empty({count}, DType::f32, Device::cpu());
    for (std::int64_t i = 0; i < count; ++i)
      result.data<float>()[i] = static_cast<float>(1 + std::sin(scale * double(i)));
    return result;
  };
  const Tensor weights = filled(0.7), gradient = filled(1.3);
  const std::size_t kept = GetParam().state_names().size();
  const std::vector<Tensor> state(kept, filled(2.1));
  const auto updated = [&](std::int64_t size) {
    std::vector<Tensor> result;  // the weights, and the state
    while (result.size() < 1 + kept)
      result.push_back(Tensor::empty({count}, DType::f32, Device::cpu()));
    for (std::int64_t begin = 0; begin < count; begin += size) {
      const std::int64_t here = std::min(size, count - begin);
      std::vector<Tensor> old_parts, new_parts;
      for (std::size_t i = 0; i < kept; ++i) {
        old_parts.push_back(state[i].narrow(begin, here));
        new_parts.push_back(result[1 + i].narrow(begin, here));
      }
      GetParam().update({}, {.updates = 4, .lr = 0.1},
                        {.weights = weights.narrow(begin, here),
                         .gradient = gradient.narrow(begin, here),
                         .state = old_parts,
                         .new_weights = result[0].narrow(begin, here),
                         .new_state = new_parts});
    }
    return result;
  };
  const std::vector<Tensor> whole = updated(count);
  for (const std::int64_t size : {1, 7, 16, 50}) {
    const std::vector<Tensor> parts = updated(size);
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_EQ(std::memcmp(parts[i].raw(), whole[i].raw(), whole[i].bytes()), 0)
          << "slices of " << size << ", tensor " << i;
  }
}

Error refusal(const Optimizer& optimizer) {
  try {
    optimizer.check();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::internal, "nothing was refused");
}

TEST(Sgd, KeepsMomentumOnlyWhereThereIsSome) {
  EXPECT_THAT(Sgd{}.state_names(), testing::IsEmpty());
  EXPECT_THAT(Sgd{.momentum = 0.9}.state_names(), testing::ElementsAre("momentum"));
}

TEST(Sgd, RefusesHyperParametersThatItCannotHave) {
  EXPECT_THAT(refusal(Sgd{.momentum = 1.0}).message(), HasSubstr("train.momentum is 1"));
  EXPECT_THAT(refusal(Sgd{.weight_decay = -1.0}).message(), HasSubstr("train.weight_decay"));
  EXPECT_THAT(refusal(Sgd{.nesterov = true}).message(), HasSubstr("`momentum` is 0"));
  EXPECT_EQ(refusal(Sgd{.momentum = 0.9, .nesterov = true}).code(), ErrorCode::internal);
}

// https://pytorch.org/docs/stable/generated/torch.optim.SGD.html, with dampening 0, and
// https://pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html: "sets the
// learning rate of each parameter group to the initial lr times a given function".
struct DocumentedGroup {
  double initial_lr, momentum, weight_decay;
  bool nesterov = false;

  double weight = 0.5, buffer = 0;
  void step(double gradient, double factor, bool first) {
    double g = gradient + weight_decay * weight;
    if (momentum != 0) {
      buffer = first ? g : momentum * buffer + g;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    weight -= initial_lr * factor * g;
  }
};

TEST_F(SmallNetwork, StepsParameterGroupsAsPyTorchsParamGroups) {
  const Sgd rest{.momentum = 0.9, .weight_decay = 0.1};
  const Optimizer optimizer = Optimizer(rest).with_groups(
      {{.parameters = {"*.bias"}, .optimizer = Sgd{.momentum = 0.9, .nesterov = true}},
       {.parameters = {"*1.weight"}, .optimizer = Sgd{.weight_decay = 0.1}, .lr = 0.02}});
  const std::map<std::string, DocumentedGroup> documented{
      {"rest", {0.3, 0.9, 0.1}}, {"bias", {0.3, 0.9, 0.0, true}}, {"weight", {0.02, 0.0, 0.1}}};
  const std::vector<ParameterSpec>& parameters = network_.spec().parameters();
  std::map<std::string, DocumentedGroup> expected;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expected.emplace(parameters[i].name,
                     documented.at(parameters[i].name.ends_with(".bias") ? "bias"
                                   : i + 2 == parameters.size()          ? "weight"
                                                                         : "rest"));
  ASSERT_TRUE(parameters[parameters.size() - 2].name.ends_with("1.weight"));
  Tensor weights = network_.state()->weights.clone();
  std::ranges::fill(weights.elements<float>(), 0.5f);
  auto start = std::make_shared<StateVersion>(*network_.state());
  start->weights = weights;
  network_.use(start);
  const LearningRateOptions rate{
      .schedule = LearningRateSchedule::cosine, .lr = 0.3, .total_steps = 4, .warmup_steps = 1};
  // 1/2 by the warm-up, then (1 + cos(pi t / 3)) / 2.
  const std::vector<double> factors{0.5, 1.0, 0.75, 0.25};
  for (int step = 0; step < 4; ++step) {
    network_.use(
        network_.step(optimizer.at(rate, step), learning_rate(rate, step), gradient(), {}));
    const auto views = network_.spec().parameter_views(network_.state()->weights);
    for (std::size_t i = 0; i < views.size(); ++i) {
      DocumentedGroup& group = expected.at(parameters[i].name);
      group.step(0.25, factors[static_cast<std::size_t>(step)], step == 0);
      for (const float weight : views[i].elements<float>())
        ASSERT_NEAR(weight, group.weight, 1e-6) << parameters[i].name << " after step " << step + 1;
    }
  }
}

TEST_F(SmallNetwork, HasTheSameBitsInOneGroupAsInNone) {
  const Sgd sgd{.momentum = 0.9, .weight_decay = 0.1};
  const auto digest = [&](const Optimizer& optimizer, const std::vector<Tensor>& gradients) {
    Network network = make();
    network.use(initial_state(network.spec(), DType::f32, 3));
    for (int step = 0; step < 3; ++step)
      network.use(network.step(optimizer.at({.lr = 0.1}, step), 0.1, gradients, {}));
    const Tensor& weights = network.state()->weights;
    return std::vector<float>(weights.elements<float>().begin(), weights.elements<float>().end());
  };
  const auto none = digest(sgd, {gradient()});
  const Optimizer groups =
      Optimizer(sgd).with_groups({{.parameters = {"*"}, .optimizer = sgd, .lr = 0.1}});
  const Optimizer biases =
      Optimizer(sgd).with_groups({{.parameters = {"*.bias"}, .optimizer = sgd}});
  EXPECT_EQ(digest(groups, {gradient()}), none);
  EXPECT_EQ(digest(biases, {gradient()}), none);
  const std::int64_t all = gradient().element_count();  // two buckets: the last blocks first
  const std::vector<Tensor> buckets{gradient().narrow(32, all - 32), gradient().narrow(0, 32)};
  EXPECT_EQ(digest(biases, buckets), none);
}

TEST_F(SmallNetwork, KeepsAStateTensorThatOnlyAGroupHasAndZeroesItElsewhere) {
  const Optimizer optimizer =
      Optimizer(Sgd{}).with_groups({{.parameters = {"*.bias"}, .optimizer = Sgd{.momentum = 0.9}}});
  EXPECT_THAT(optimizer.state_names(), testing::ElementsAre("momentum"));
  for (int step = 0; step < 2; ++step) {
    {  // what memory held before must not matter
      Tensor dirty = network_.state()->weights.clone();
      std::ranges::fill(dirty.elements<float>(), 7.0f);
    }
    network_.use(network_.step(optimizer, 0.1, gradient(), {}));
  }
  ASSERT_EQ(network_.state()->optimizer_state.size(), 1u);
  const StateSpec& spec = network_.spec();
  const auto views = spec.parameter_views(network_.state()->optimizer_state[0].tensor);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const float expected = spec.parameters()[i].name.ends_with(".bias") ? 0.9f * 0.25f + 0.25f : 0;
    for (const float value : views[i].elements<float>())
      ASSERT_FLOAT_EQ(value, expected) << spec.parameters()[i].name;
  }
}

// In f16 a gradient may overflow; a frozen parameter has no part in the norm that tells.
TEST_F(SmallNetwork, KeepsFrozenParametersAsTheyAreWhateverTheirGradient) {
  const StatePtr before = network_.state();
  const StateSpec& spec = network_.spec();
  Tensor overflown = gradient();
  const auto gradients = spec.parameter_views(overflown);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (spec.parameters()[i].name.ends_with(".bias"))
      std::ranges::fill(Tensor(gradients[i]).elements<float>(), INFINITY);
  for (const Optimizer& rule : {Optimizer(Sgd{.momentum = 0.9, .weight_decay = 0.1}),
                                Optimizer(Adam{}), Optimizer(AdamW{})})
    for (const double clip : {0.0, 1.0}) {
      SCOPED_TRACE(std::string(rule.name()) + ", clip_value " + std::to_string(clip));
      const Optimizer optimizer = rule.with_clip_value(clip).with_groups(
          {{.parameters = {"*.bias"}, .optimizer = rule, .lr = 0.0}});
      Network network = make();
      network.use(before);
      const LearningRateOptions rate{.lr = 0.1, .warmup_steps = 2};  // a rate of 0 freezes nobody
      for (int step = 0; step < 2; ++step)
        network.use(
            network.step(optimizer.at(rate, step), learning_rate(rate, step), overflown, {}));
      const auto old = spec.parameter_views(before->weights);
      const auto now = spec.parameter_views(network.state()->weights);
      for (std::size_t i = 0; i < now.size(); ++i) {
        const bool frozen = spec.parameters()[i].name.ends_with(".bias");
        EXPECT_EQ(std::ranges::equal(now[i].elements<float>(), old[i].elements<float>()), frozen)
            << spec.parameters()[i].name;
        for (const NamedTensor& state : network.state()->optimizer_state)
          for (const float value : spec.parameter_views(state.tensor)[i].elements<float>())
            ASSERT_EQ(value == 0, frozen) << state.name << " of " << spec.parameters()[i].name;
      }
    }
}

struct StateTwice : OwnOptimizer {
  std::vector<std::string> state_names() const { return {"a", "a"}; }
};

TEST(Optimizer, RefusesTwoStateTensorsOfOneName) {
  try {
    Optimizer(StateTwice{}).check();
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("own names the state tensor a twice"));
  }
}

TEST(ParameterGroups, NameParametersNearTheLiteralPartOfAPattern) {
  const std::vector<std::string> names{"fc.bias",           "layer1.0.conv1.weight",
                                       "layer1.0.bn1.bias", "backbone.stem.conv.weight",
                                       "head.weight",       "backbone.norm.weight"};
  const auto remedy_for = [&](const std::string& pattern) -> std::string {
    try {
      Optimizer(Sgd{})
          .with_groups({{.parameters = {pattern}, .optimizer = Sgd{}}})
          .check_groups(names);
    } catch (const Error& error) {
      return error.remedy();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(remedy_for("backbone"), "write \"backbone.*\"");
  EXPECT_EQ(remedy_for("layer1.*.conv1"), "write \"layer1.*.conv1.*\"");
  EXPECT_EQ(remedy_for("bias"), "write \"*.bias\"");
  EXPECT_EQ(remedy_for("stem"), "write \"*.stem.*\"");
  EXPECT_THAT(remedy_for("bakbone.*"),
              HasSubstr("backbone.stem.conv.weight, backbone.norm.weight"));
  EXPECT_THAT(remedy_for("*.layer1.0.cnov1.*"), HasSubstr("names are layer1.0.conv1.weight"));
  EXPECT_THAT(remedy_for("*.hed.*"), HasSubstr("names are head.weight"));
  EXPECT_THAT(remedy_for("layer.*"), HasSubstr("layer1.0.conv1.weight, layer1.0.bn1.bias"));
  EXPECT_THAT(remedy_for("*.*.*.*.*.*"), HasSubstr("nearest names"));
}

TEST(ParameterGroups, RefuseWhatFitsNoModel) {
  const std::vector<std::string> names{"stem.weight", "norm.weight", "norm.bias", "head.bias"};
  const auto refusal_of = [&](std::vector<ParameterGroup> groups) {
    try {
      const Optimizer optimizer = Optimizer(Sgd{}).with_groups(std::move(groups));
      optimizer.check();
      optimizer.check_groups(names);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_options);
      return error.message() + "; " + error.remedy();
    }
    return std::string("nothing was refused");
  };
  EXPECT_EQ(refusal_of({{.parameters = {"*.bias", "norm.*t"}, .optimizer = Sgd{}}}),
            "nothing was refused");
  EXPECT_EQ(refusal_of({{.parameters = {"*.bais"}, .optimizer = Sgd{}}}),
            "the parameter group [*.bais]: no parameter of the model matches *.bais; the nearest "
            "names are norm.bias, head.bias, stem.weight");
  EXPECT_THAT(refusal_of({{.parameters = {"*.bias"}, .optimizer = Sgd{}},
                          {.parameters = {"norm.*"}, .optimizer = Sgd{}}}),
              HasSubstr("norm.bias is in the parameter group [*.bias] as well"));
  EXPECT_THAT(refusal_of({{.parameters = {"*"}, .optimizer = Sgd{.nesterov = true}}}),
              HasSubstr("[*]: nesterov is true, but momentum is 0"));
  EXPECT_THAT(refusal_of({{.parameters = {}, .optimizer = Sgd{}}}),
              HasSubstr("it has no parameters"));
  EXPECT_THAT(refusal_of({{.parameters = {"*"}, .optimizer = Sgd{}, .lr = -1}}),
              HasSubstr("its learning rate is -1"));
  EXPECT_THAT(refusal_of({{.parameters = {"*"}, .optimizer = OwnOptimizer{}}}),
              HasSubstr("its optimizer is own, but that of the run is sgd"));
}

TEST(Optimizer, IsAValueWhoseHyperParametersAreOptions) {
  Optimizer one = Sgd{.momentum = 0.5}, other = one;
  for (const OptionField& field : other.options())
    if (field.path == "train.momentum") field.read({OptionTree::Kind::scalar, "here", "0"});
  EXPECT_THAT(other.state_names(), testing::IsEmpty());
  EXPECT_THAT(one.state_names(), testing::ElementsAre("momentum"));
  EXPECT_EQ(one.name(), "sgd");
}

TEST(Adam, RefusesHyperParametersThatItCannotHave) {
  EXPECT_THAT(refusal(Adam{.betas = {0.9}}).message(), HasSubstr("adam needs two `betas`, not 1"));
  EXPECT_THAT(refusal(AdamW{.betas = {0.9, 1.0}}).message(), HasSubstr("train.betas"));
  EXPECT_THAT(refusal(AdamW{.epsilon = -1}).message(), HasSubstr("train.epsilon"));
  const Optimizer adam{Adam{}};
  EXPECT_THAT(refusal(adam.with_clip_value(-1)).message(), HasSubstr("`clip_value` is -1"));
  EXPECT_THAT(refusal(adam.with_clip_norm(-1)).message(), HasSubstr("`clip_norm` is -1"));
  EXPECT_THAT(refusal(adam.with_clip_norm(2).with_clip_value(3)).message(),
              HasSubstr("`clip_norm` is 2 and `clip_value` 3"));
  EXPECT_THAT(refusal(adam.with_average(1)).message(), HasSubstr("`ema_decay` is 1"));
}

TEST(KnownOptimizers, AreFoundByName) {
  for (const char* name : {"adam", "adamw"})
    EXPECT_THAT(find_definition(known_optimizers(), name).state_names(),
                testing::ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(find_definition(known_optimizers(), "sgd").state_names(),
              testing::ElementsAre("momentum"));
  try {
    find_definition(known_optimizers(), "sdg");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.remedy(), HasSubstr("sgd"));
  }
}

TEST(KnownOptimizers, HaveHyperParametersThatGoTogether) {
  for (const Optimizer& optimizer : known_optimizers()) EXPECT_NO_THROW(optimizer.check());
}

}  // namespace
}  // namespace troupe

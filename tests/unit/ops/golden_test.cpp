// What PyTorch computed: tests/golden/make_golden.py wrote the files and says how.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "image_models.h"
#include "ops/cpu/processor.h"
#include "ops/loss.h"
#include "ops/nn/network.h"
#include "ops/optim/learning_rate.h"
#include "ops/optim/optimizers.h"
#include "runtime/file/safetensors.h"
#include "runtime/tensor/cast.h"
#include "samples.h"

namespace troupe::testing_ops {
namespace {

const std::string golden_folder = TROUPE_SOURCE_DIR "/tests/golden/";

class Golden {
 public:
  explicit Golden(const std::string& file) {
    for (NamedTensor& named : read_safetensors(golden_folder + file).tensors)
      tensors_.emplace(named.name, std::move(named.tensor));
  }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  const Tensor& operator[](const std::string& name) const { return tensors_.at(name); }
  std::size_t size() const { return tensors_.size(); }

 private:
  std::map<std::string, Tensor> tensors_;
};

TEST(GoldenPrimitives, GiveWhatPyTorchGives) {
  const Golden golden("primitives.safetensors");
  std::size_t compared = 0;
  for (const Sample& sample : all_samples()) {
    const Outcome outcome = run(sample, numbers(sample));
    const auto expect = [&](const std::string& part, const Tensor& tensor) {
      ASSERT_TRUE(golden.has(sample.name + part)) << sample.name << part;
      EXPECT_LT(distance(tensor, golden[sample.name + part]), 1e-12) << sample.name << part;
      ++compared;
    };
    expect("/output", outcome.output);
    for (std::size_t i = 0; i < outcome.input_gradients.size(); ++i)
      expect("/input_gradient" + std::to_string(i), outcome.input_gradients[i]);
    for (std::size_t i = 0; i < outcome.weight_gradients.size(); ++i)
      expect("/weight_gradient" + std::to_string(i), outcome.weight_gradients[i]);
    for (std::size_t i = 0; i < outcome.statistics.size(); ++i)
      expect("/statistic" + std::to_string(i), outcome.statistics[i]);
  }
  EXPECT_EQ(compared, golden.size());
}

TEST(GoldenRates, AreThoseOfPyTorchsSchedulers) {
  const Golden golden("rates.safetensors");
  LearningRateOptions options{
      .lr = 0.1, .total_steps = 50, .steps_per_epoch = 5, .step_epochs = 3, .power = 1.5};
  for (const auto& [name, schedule] : learning_rate_schedule_names) {
    if (schedule == LearningRateSchedule::constant || schedule == LearningRateSchedule::plateau)
      continue;  // which depends on evaluations
    options.schedule = schedule;
    for (std::int64_t step = 0; step < 50; ++step)
      EXPECT_NEAR(learning_rate(options, step), golden[std::string(name)].data<double>()[step],
                  1e-15)
          << name << " at step " << step;
  }
}

TEST(GoldenModels, HaveTheNamesShapesAndTypesOfPyTorchs) {
  std::vector<std::string> lines;
  for (const ModelSource& source : known_models()) {
    const std::string name(source.name());
    if (name == FileModel::name) continue;  // graph_golden_test.cpp
    const bool on_mnist = name == "wide_resnet" || name == "mnist_cnn" || name == "mlp";
    Model model = source.make(on_mnist ? mnist_samples : cifar_samples);
    StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
    for (const NamedTensor& named : named_tensors(spec, *initial_state(spec, DType::f32, 1), true))
      lines.push_back(fmt::format("{} {} {} {}", name, named.name, to_string(named.tensor.shape()),
                                  name_of(named.tensor.dtype())));
  }
  std::ifstream file(golden_folder + "model_names.txt");
  std::vector<std::string> expected;
  for (std::string line; std::getline(file, line);) expected.push_back(line);
  std::sort(lines.begin(), lines.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(lines, expected);
}

constexpr std::int64_t steps = 20, batch = 8;

struct Training {
  std::vector<double> losses;
  std::vector<StatePtr> states;  ///< after each step
  StateSpec spec;
};

/// How a model is trained, as a Recipe of golden_models.py.
struct Recipe {
  Optimizer optimizer = Sgd{.momentum = 0.9, .weight_decay = 5e-4};
  LearningRateOptions rate = {};
  LossFunction loss = {};
};

Recipe recipe_of(const std::string& name) {
  if (name == "adam") return {.optimizer = Adam{.weight_decay = 0.01}, .rate = {.lr = 0.002}};
  if (name == "adamw")
    return {.optimizer = AdamW{.betas = {0.8, 0.99}, .epsilon = 1e-6, .weight_decay = 0.1},
            .rate = {.lr = 0.0005}};
  Recipe sgd{.rate = {.lr = 0.02}};
  if (name == "clip_norm") sgd.optimizer = sgd.optimizer.with_clip_norm(0.5);
  if (name == "ema") sgd.optimizer = sgd.optimizer.with_average(0.9);
  if (name == "clip_value") sgd.optimizer = sgd.optimizer.with_clip_value(0.01);
  if (name == "label_smoothing") sgd.loss.label_smoothing = 0.1;
  if (name == "class_weights")
    for (int c = 0; c < 10; ++c) sgd.loss.class_weights.push_back(0.25 + 0.25 * c);
  if (name == "mse") return {.rate = {.lr = 0.001}, .loss = {.kind = LossKind::mse}};
  if (name == "bce") sgd.loss.kind = LossKind::bce;
  if (name == "polynomial")
    sgd.rate = {
        .schedule = LearningRateSchedule::polynomial, .lr = 0.02, .total_steps = steps, .power = 2};
  return sgd;
}

/// What is evaluated: the moving average of the weights, if there is one.
StatePtr evaluated(const StatePtr& state) {
  for (const NamedTensor& kept : state->optimizer_state)
    if (kept.name == average_name) {
      auto average = std::make_shared<StateVersion>(*state);
      average->weights = kept.tensor;
      return average;
    }
  return state;
}

/// Classes, or numbers in [0, 1].
Tensor targets_of(const LossFunction& loss, std::int64_t step) {
  if (loss.kind != LossKind::cross_entropy) {
    Tensor numbers = uniform(fmt::format("golden/targets/{}", step), {batch, 10});
    for (double& number : numbers.elements<double>()) number = 0.5 + 0.5 * number;
    return numbers;
  }
  Tensor classes = Tensor::empty(Shape{batch}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < batch; ++i)
    classes.data<std::int64_t>()[i] = (3 * i + 7 * step) % 10;
  return classes;
}

Training train(const ModelSource& source, const Shape& sample, const Recipe& recipe, DType dtype,
               const Stream& stream = {}) {
  Model model = source.make({.shape = sample, .classes = 10});
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, dtype, stream);
  network.use(small_init_residual(network.spec(), initial_state(network.spec(), dtype, 1)));
  Training result;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor images =
        uniform(fmt::format("golden/images/{}", step), {batch, sample[0], sample[1], sample[2]});
    auto pass = network.forward(cast(images, dtype),
                                {.seed = 1, .step = static_cast<std::uint32_t>(step)}, false);
    const LossOutput loss =
        loss_of({}, recipe.loss, pass->result(), targets_of(recipe.loss, step), 1.0 / batch, true);
    network.backward(*pass, loss.logits_grad);
    double squares = 0;
    for (const double square :
         network.gradient_squares(recipe.optimizer, {pass->gradients}).elements<double>())
      squares += square;
    const Optimizer optimizer = recipe.optimizer.at(recipe.rate, step, std::sqrt(squares));
    network.use(network.step(optimizer, learning_rate(recipe.rate, step), pass->gradients,
                             {pass->statistics}));
    result.losses.push_back(read_totals({}, loss).loss_sum / batch);
    result.states.push_back(evaluated(network.state()));
  }
  result.spec = network.spec();
  return result;
}

double norm(const Tensor& tensor) {
  double squares = 0;
  for (const double value : tensor.elements<double>()) squares += value * value;
  return std::sqrt(squares);
}

// |a - b| / |b| over all elements of two f64 tensors.
double relative_distance(const Tensor& a, const Tensor& b) {
  const Tensor difference = a.clone();
  for (std::int64_t e = 0; e < a.element_count(); ++e)
    difference.data<double>()[e] -= b.data<double>()[e];
  return norm(difference) / norm(b);
}

// The elements that golden_models.py keeps of a tensor.
Tensor sampled(const Tensor& tensor) {
  const std::int64_t stride = std::max<std::int64_t>(1, tensor.element_count() / 256);
  std::vector<double> kept;
  for (std::int64_t e = 0; e < tensor.element_count(); e += stride)
    kept.push_back(tensor.data<double>()[e]);
  return Tensor::from<double>(Shape{static_cast<std::int64_t>(kept.size())}, kept);
}

struct Run {
  const char* model;
  const char* recipe;  ///< or the rate of SGD, as in models.safetensors
  bool is_rate() const { return *recipe == '0'; }
};
std::ostream& operator<<(std::ostream& out, const Run& run) {
  return out << run.model << " with " << run.recipe;
}

ModelSource model_of(const Run& run) {
  return small_model(run.model, {.wide_resnet_widths = {4, 4, 8, 8},
                                 .mlp_widths = {24, 16},
                                 .resnet_widths = {16, 16, 32, 32},
                                 .dropout = 0.05});
}

Shape sample_of(const std::string& model) {
  if (model == "cifar_cnn") return cifar_samples.shape;
  if (model == "resnet18" || model == "resnet34") return {3, 20, 24};
  if (model == "resnet50") return {3, 33, 40};
  if (model == "resnet18_cifar" || model == "resnet50_cifar") return {3, 8, 9};
  return mnist_samples.shape;
}

class GoldenTraining : public testing::TestWithParam<Run> {
 protected:
  Golden golden_{GetParam().is_rate() ? "models.safetensors" : "recipes.safetensors"};
  std::string key_ = fmt::format("{}/{}/", GetParam().model, GetParam().recipe);
  ModelSource model_ = model_of(GetParam());
  Shape sample_ = sample_of(GetParam().model);
  Recipe recipe_ = GetParam().is_rate() ? Recipe{.rate = {.lr = std::stod(GetParam().recipe)}}
                                        : recipe_of(GetParam().recipe);
};

// The norms of all weights and statistics, in the order of their names.
Tensor norms(const Training& training) {
  std::map<std::string, double> by_name;
  for (const NamedTensor& named : named_tensors(training.spec, *training.states.back(), false))
    if (named.tensor.dtype() == DType::f64) by_name[named.name] = norm(named.tensor);
  std::vector<double> values;
  for (const auto& [name, value] : by_name) values.push_back(value);
  return Tensor::from<double>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

TEST_P(GoldenTraining, AgreesInDoublePrecisionToOneInAHundredMillion) {
  const Training ours = train(model_, sample_, recipe_, DType::f64);
  for (std::int64_t step = 0; step < steps; ++step) {
    const double expected = golden_[key_ + "losses"].data<double>()[step];
    EXPECT_NEAR(ours.losses[static_cast<std::size_t>(step)], expected, 1e-8 * expected)
        << "loss of step " << step;
  }
  if (golden_.has(key_ + "norms")) {
    const Tensor expected = golden_[key_ + "norms"], actual = norms(ours);
    ASSERT_EQ(actual.shape(), expected.shape());
    for (std::int64_t i = 0; i < actual.element_count(); ++i)
      EXPECT_NEAR(actual.data<double>()[i], expected.data<double>()[i],
                  1e-8 * expected.data<double>()[i])
          << "tensor " << i << " by name";
    return;
  }
  std::size_t compared = 0;
  for (const NamedTensor& named : named_tensors(ours.spec, *ours.states.back(), false)) {
    if (named.tensor.dtype() != DType::f64) continue;
    const Tensor& expected = golden_[key_ + "final/" + named.name];
    EXPECT_LT(relative_distance(sampled(named.tensor), expected), 1e-8) << named.name;
    const double expected_norm = *golden_[key_ + "norm/" + named.name].data<double>();
    EXPECT_NEAR(norm(named.tensor), expected_norm, 1e-8 * expected_norm) << named.name;
    ++compared;
  }
  EXPECT_GE(compared, 6u);
}

// Rounding is amplified until some ReLU or pooling decides otherwise, and then much at once; when
// that happens is chance. So a step is held against the largest distance of PyTorch's own run up to
// two steps later, and at least against `least`: PyTorch's loss may happen to be the exact one.
double allowance(const Tensor& distances, std::int64_t step, double least = 0) {
  const double* values = distances.data<double>();
  return 3 * std::max(least, *std::max_element(values, values + std::min(steps, step + 3)));
}

class GoldenSingleTraining : public GoldenTraining {};

TEST_P(GoldenSingleTraining, StaysWithinThreeTimesPyTorchsOwnDistance) {
  ASSERT_EQ(golden_[key_ + "f32_loss_distance"].element_count(), steps);
  ASSERT_EQ(golden_[key_ + "f32_weight_distance"].element_count(), steps);
  const Training exact = train(model_, sample_, recipe_, DType::f64);
  const Training ours = train(model_, sample_, recipe_, DType::f32);
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    const double expected = golden_[key_ + "losses"].data<double>()[step];
    const double loss = std::abs(ours.losses[i] - expected);
    const double weights =
        relative_distance(cast(ours.states[i]->weights, DType::f64), exact.states[i]->weights);
    EXPECT_LE(loss, allowance(golden_[key_ + "f32_loss_distance"], step, 0x1p-23 * expected))
        << "step " << step;
    EXPECT_LE(weights, allowance(golden_[key_ + "f32_weight_distance"], step)) << "step " << step;
  }
}

class GoldenMixedTraining : public GoldenTraining {};

// PyTorch's autocast also rounds what convolutions and linear layers write.
TEST_P(GoldenMixedTraining, StaysWithinThreeTimesPyTorchsOwnDistance) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "this processor has no instructions for bf16";
  const Golden distances("mixed.safetensors");
  ASSERT_EQ(distances[key_ + "bf16_loss_distance"].element_count(), steps);
  ASSERT_EQ(distances[key_ + "bf16_weight_distance"].element_count(), steps);
  const Training exact = train(model_, sample_, recipe_, DType::f64);
  const Training ours = train(model_, sample_, recipe_, DType::f32, {.products = DType::bf16});
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    const double weights =
        relative_distance(cast(ours.states[i]->weights, DType::f64), exact.states[i]->weights);
    EXPECT_LE(std::abs(ours.losses[i] - exact.losses[i]),
              allowance(distances[key_ + "bf16_loss_distance"], step))
        << "step " << step;
    EXPECT_LE(weights, allowance(distances[key_ + "bf16_weight_distance"], step))
        << "step " << step;
    EXPECT_GT(weights, 1e-6) << "nothing was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(EachModel, GoldenMixedTraining,
                         testing::Values(Run{"wide_resnet", "0.001"}, Run{"wide_resnet", "0.02"},
                                         Run{"mnist_cnn", "0.001"}, Run{"mnist_cnn", "0.02"},
                                         Run{"mlp", "0.001"}, Run{"mlp", "0.02"}));

using Names = std::vector<const char*>;

std::vector<Run> runs(const Names& models, const Names& recipes) {
  std::vector<Run> all;
  for (const char* recipe : recipes)
    for (const char* model : models) all.push_back({model, recipe});
  return all;
}

const Names small_models = {"wide_resnet", "mnist_cnn", "mlp", "cifar_cnn"},
            resnets = {"resnet18", "resnet34", "resnet50", "resnet18_cifar", "resnet50_cifar"};
const auto recipes = testing::ValuesIn(
    runs({"mnist_cnn", "mlp"}, {"adam", "adamw", "clip_value", "clip_norm", "ema",
                                "label_smoothing", "class_weights", "mse", "bce", "polynomial"}));

INSTANTIATE_TEST_SUITE_P(EachModel, GoldenTraining,
                         testing::ValuesIn(runs(small_models, {"0.001", "0.02"})));
INSTANTIATE_TEST_SUITE_P(EachResNet, GoldenTraining,
                         testing::ValuesIn(runs(resnets, {"0.000001", "0.001"})));
INSTANTIATE_TEST_SUITE_P(EachRecipe, GoldenTraining, recipes);

INSTANTIATE_TEST_SUITE_P(EachModel, GoldenSingleTraining,
                         testing::ValuesIn(runs(small_models, {"0.001", "0.02"})));
// At the larger rate, a ReLU that decides otherwise in f32 moves the weights of a ResNet further
// than rounding does.
INSTANTIATE_TEST_SUITE_P(EachResNet, GoldenSingleTraining,
                         testing::ValuesIn(runs(resnets, {"0.000001"})));
INSTANTIATE_TEST_SUITE_P(EachRecipe, GoldenSingleTraining, recipes);

}  // namespace
}  // namespace troupe::testing_ops

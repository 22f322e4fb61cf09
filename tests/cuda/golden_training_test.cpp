// Twenty steps of each model on the device, against what PyTorch computed (tests/golden).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "emulated.h"
#include "image_models.h"
#include "ops/loss.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "ops/optim/optimizers.h"
#include "runtime/file/safetensors.h"
#include "runtime/tensor/cast.h"
#include "samples.h"
#include "source_folder.h"

namespace troupe::testing {
namespace {

constexpr std::int64_t batch = 8;

struct Run {
  const char* model;
  const char* rate;  ///< of SGD, as in models.safetensors
};
void PrintTo(const Run& run, std::ostream* out) { *out << run.model << " with " << run.rate; }

/// The golden tensors of one run, by their names' ends.
std::map<std::string, Tensor> golden_of(const Run& run,
                                        const std::string& file = "models.safetensors") {
  const std::string key = fmt::format("{}/{}/", run.model, run.rate);
  std::map<std::string, Tensor> found;
  for (NamedTensor& named : read_safetensors(source_folder() + "/tests/golden/" + file).tensors)
    if (named.name.starts_with(key))
      found.emplace(named.name.substr(key.size()), std::move(named.tensor));
  return found;
}

Shape sample_of(const std::string& model) {
  if (model == "cifar_cnn") return testing_ops::cifar_samples.shape;
  if (model == "resnet18" || model == "resnet34") return {3, 20, 24};
  if (model == "resnet50") return {3, 33, 40};
  if (model == "resnet18_cifar" || model == "resnet50_cifar") return {3, 8, 9};
  return testing_ops::mnist_samples.shape;
}

/// |a - b| / |b| over all elements of two tensors of f64.
double relative_distance(const Tensor& a, const Tensor& b) {
  double difference = 0, whole = 0;
  for (std::int64_t e = 0; e < a.element_count(); ++e) {
    difference += std::pow(a.data<double>()[e] - b.data<double>()[e], 2);
    whole += std::pow(b.data<double>()[e], 2);
  }
  return std::sqrt(difference / whole);
}

struct Training {
  std::vector<double> losses;   ///< before each step
  std::vector<Tensor> weights;  ///< after it, in the CPU's memory
};

Training train(const Run& run, std::int64_t steps, DType dtype, DType products = DType::f32) {
  const EmulatedStream own;
  Stream stream = own.get();
  stream.products = products;
  const Shape sample = sample_of(run.model);
  Model model = testing_ops::small_model(run.model, {.wide_resnet_widths = {4, 4, 8, 8},
                                                     .mlp_widths = {24, 16},
                                                     .resnet_widths = {16, 16, 32, 32},
                                                     .dropout = 0.05})
                    .make({.shape = sample, .classes = 10});
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, dtype, stream);
  network.use(on_device(stream, testing_ops::small_init_residual(
                                    network.spec(), initial_state(network.spec(), dtype, 1))));
  const Optimizer optimizer = Sgd{.momentum = 0.9, .weight_decay = 5e-4};
  Training result;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor images = testing_ops::uniform(fmt::format("golden/images/{}", step),
                                               {batch, sample[0], sample[1], sample[2]});
    Tensor classes = Tensor::empty(Shape{batch}, DType::i64, Device::cpu());
    for (std::int64_t i = 0; i < batch; ++i)
      classes.data<std::int64_t>()[i] = (3 * i + 7 * step) % 10;
    const auto pass = network.forward(on_device(stream, cast(images, dtype)),
                                      {.seed = 1, .step = static_cast<std::uint32_t>(step)}, false);
    const LossOutput loss = loss_of(stream, {}, pass->result(), classes, 1.0 / batch, true);
    network.backward(*pass, loss.logits_grad);
    network.use(network.step(optimizer, std::stod(run.rate), pass->gradients, {pass->statistics}));
    result.losses.push_back(read_totals(stream, loss).loss_sum / batch);
    result.weights.push_back(on_cpu(stream, network.state()->weights));
  }
  return result;
}

void expect_the_losses_in_f64(const Run& run) {
  const auto golden = golden_of(run);
  const std::vector<double> losses = train(run, 20, DType::f64).losses;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const double expected = golden.at("losses").data<double>()[step];
    EXPECT_NEAR(losses[step], expected, 1e-8 * expected) << "step " << step;
  }
}

class CudaGolden : public ::testing::TestWithParam<Run> {};

TEST_P(CudaGolden, LossesAreThoseOfPyTorchInF64) { expect_the_losses_in_f64(GetParam()); }

class CudaGoldenF64 : public CudaGolden {};

// At this rate, a ReLU of a ResNet that decides otherwise in f32 moves the weights further than
// rounding does.
TEST_P(CudaGoldenF64, LossesAreThoseOfPyTorchAtALargerRate) {
  expect_the_losses_in_f64(GetParam());
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaGoldenF64);

// As tests/unit/ops/golden_test.cpp: a step is held against the largest distance of PyTorch's own
// run in f32 up to two steps later; four times, since the order of cuDNN's sums is a third one.
TEST_P(CudaGolden, LossesStayWithinFourTimesPyTorchsOwnDistanceInF32) {
  const auto golden = golden_of(GetParam());
  const Tensor& distances = golden.at("f32_loss_distance");
  const std::int64_t steps = distances.element_count();
  ASSERT_EQ(steps, 20);
  std::vector<double> losses = train(GetParam(), steps, DType::f32).losses;
#ifdef TROUPE_CUDA_EMULATOR
  // In the order of its sums, a ReLU decides otherwise in step 14, after which weights differ by
  // more than rounding.
  if (GetParam().model == std::string("wide_resnet") && GetParam().rate == std::string("0.001"))
    losses.resize(15);
#endif
  const double* expected = golden.at("losses").data<double>();
  const double* own = distances.data<double>();
  for (std::int64_t step = 0; step < std::ssize(losses); ++step)
    EXPECT_LE(std::abs(losses[static_cast<std::size_t>(step)] - expected[step]),
              4 * std::max(0x1p-23 * expected[step],
                           *std::max_element(own, own + std::min(steps, step + 3))))
        << "step " << step;
}

class CudaMixedGolden : public ::testing::TestWithParam<Run> {};

// As tests/unit/ops/golden_test.cpp, by PyTorch's own distance in bf16. f16 rounds less, but a ReLU
// may decide otherwise too.
TEST_P(CudaMixedGolden, StaysWithinThreeTimesPyTorchsOwnDistanceAndKeepsWeightsInF32) {
  const auto distances = golden_of(GetParam(), "mixed.safetensors");
  const std::int64_t steps = distances.at("bf16_loss_distance").element_count();
  ASSERT_EQ(steps, 20);
  const Training exact = train(GetParam(), steps, DType::f64);
  const auto allowed = [&](const char* name, std::int64_t step) {
    const double* own = distances.at(name).data<double>();
    return 3 * *std::max_element(own, own + std::min(steps, step + 3));
  };
  for (const DType products : {DType::bf16, DType::f16}) {
    const Training ours = train(GetParam(), steps, DType::f32, products);
    for (std::int64_t step = 0; step < steps; ++step) {
      SCOPED_TRACE(fmt::format("{}, step {}", name_of(products), step));
      const auto i = static_cast<std::size_t>(step);
      const Tensor weights = cast(ours.weights[i], DType::f64);
      const double distance = relative_distance(weights, exact.weights[i]);
      EXPECT_LE(std::abs(ours.losses[i] - exact.losses[i]), allowed("bf16_loss_distance", step));
      EXPECT_LE(distance, allowed("bf16_weight_distance", step));
      EXPECT_GT(distance, 1e-6) << "nothing was rounded";
      EXPECT_NE(relative_distance(cast(cast(weights, products), DType::f64), weights), 0.0)
          << "the weights themselves are rounded";
    }
  }
}

/// These, on the emulator only if TROUPE_GOLDEN_MODELS is set: there they take minutes.
auto models(std::vector<Run> runs) {
#ifdef TROUPE_CUDA_EMULATOR
  if (!std::getenv("TROUPE_GOLDEN_MODELS")) runs.clear();
#endif
  return ::testing::ValuesIn(runs);
}

std::string test_name(const ::testing::TestParamInfo<Run>& info) {
  std::string name = fmt::format("{}_{}", info.param.model, info.param.rate);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
constexpr Run quick{"mlp", "0.02"};
INSTANTIATE_TEST_SUITE_P(Quick, CudaGolden, ::testing::Values(quick), test_name);
INSTANTIATE_TEST_SUITE_P(Quick, CudaMixedGolden, ::testing::Values(quick), test_name);

INSTANTIATE_TEST_SUITE_P(EachModel, CudaGolden,
                         models({{"wide_resnet", "0.001"},
                                 {"wide_resnet", "0.02"},
                                 {"mnist_cnn", "0.001"},
                                 {"mnist_cnn", "0.02"},
                                 {"mlp", "0.001"},
                                 {"cifar_cnn", "0.001"},
                                 {"cifar_cnn", "0.02"},
                                 {"resnet18", "0.000001"},
                                 {"resnet34", "0.000001"},
                                 {"resnet50", "0.000001"},
                                 {"resnet18_cifar", "0.000001"},
                                 {"resnet50_cifar", "0.000001"}}),
                         test_name);
INSTANTIATE_TEST_SUITE_P(EachModel, CudaMixedGolden,
                         models({{"wide_resnet", "0.001"}, {"mnist_cnn", "0.001"}}), test_name);
INSTANTIATE_TEST_SUITE_P(EachResNet, CudaGoldenF64,
                         models({{"resnet18", "0.001"},
                                 {"resnet34", "0.001"},
                                 {"resnet50", "0.001"},
                                 {"resnet18_cifar", "0.001"},
                                 {"resnet50_cifar", "0.001"}}),
                         test_name);

}  // namespace
}  // namespace troupe::testing

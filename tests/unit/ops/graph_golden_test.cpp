// Models that PyTorch has exported give what PyTorch gives: tests/golden/make_graphs.py trained
// them.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "graph_files.h"
#include "ops/loss.h"
#include "ops/nn/network.h"
#include "ops/optim/optimizers.h"
#include "runtime/tensor/cast.h"
#include "samples.h"

namespace troupe::testing_ops {
namespace {

constexpr std::int64_t steps = 20, batch = 8;

using Tensors = std::map<std::string, Tensor>;

Tensors read_golden() {
  Tensors tensors;
  for (NamedTensor& named : read_safetensors(golden_folder + "graphs.safetensors").tensors)
    tensors.emplace(named.name, std::move(named.tensor));
  return tensors;
}

struct Training {
  std::vector<double> losses;
  std::vector<NamedTensor> state;
};

Tensor classes_of(std::int64_t step) {
  Tensor classes = Tensor::empty(Shape{batch}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < batch; ++i)
    classes.data<std::int64_t>()[i] = (3 * i + 7 * step) % 10;
  return classes;
}

Tensor samples_of(const std::string& model, std::int64_t step) {
  const std::string images = fmt::format("golden/images/{}", step);
  if (model != "tokens") {
    std::vector<std::int64_t> shape{batch};
    const Shape sample = graph_samples(model).shape;
    shape.insert(shape.end(), sample.dims().begin(), sample.dims().end());
    return uniform(images, Shape(shape));
  }
  Tensor tokens = Tensor::empty(Shape{batch, 12}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < batch; ++i)
    for (std::int64_t t = 0; t < 12; ++t)
      tokens.data<std::int64_t>()[12 * i + t] = (i * i + 3 * t + step) % 10;
  return tokens;
}

Training train(const std::string& name, const std::string& extension, const Optimizer& optimizer,
               double lr) {
  Model model = ModelSource(FileModel{.file = graph_file(name, extension)})
                    .make(graph_samples(name), DType::f64);
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, DType::f64, {});
  network.use(initial_state(network.spec(), DType::f64, 1));
  Training result;
  for (std::int64_t step = 0; step < steps; ++step) {
    auto pass = network.forward(samples_of(name, step),
                                {.seed = 1, .step = static_cast<std::uint32_t>(step)}, false);
    const LossOutput loss = loss_of({}, {}, pass->result(), classes_of(step), 1.0 / batch, true);
    network.backward(*pass, loss.logits_grad);
    network.use(network.step(optimizer, lr, pass->gradients, {pass->statistics}));
    result.losses.push_back(read_totals({}, loss).loss_sum / batch);
  }
  result.state = named_tensors(network.spec(), *network.state(), false);
  return result;
}

double norm(const Tensor& tensor) {
  double squares = 0;
  for (const double value : tensor.elements<double>()) squares += value * value;
  return std::sqrt(squares);
}

/// Of values that are zero but for rounding, such as a bias before a batch norm.
constexpr double rounding = 1e-16;

/// The norm of the difference of the elements that make_graphs.py keeps, relative to theirs.
double distance_of_samples(const Tensor& tensor, const Tensor& kept) {
  const std::int64_t stride = std::max<std::int64_t>(1, tensor.element_count() / 256);
  double squares = 0;
  for (std::int64_t i = 0; i < kept.element_count(); ++i) {
    const double difference = tensor.data<double>()[i * stride] - kept.data<double>()[i];
    squares += difference * difference;
  }
  return std::sqrt(squares) / (norm(kept) + rounding / 1e-8);
}

struct Run {
  std::string model, recipe, extension;
  friend std::ostream& operator<<(std::ostream& out, const Run& run) {
    return out << run.model << run.extension << " with " << run.recipe;
  }
};

class ExportedModel : public testing::TestWithParam<Run> {};
class ExportedNames : public testing::TestWithParam<Run> {};

TEST_P(ExportedModel, TrainsAsInPyTorchToOneInAHundredMillion) {
  const auto& [model, recipe, extension] = GetParam();
  const Tensors golden = read_golden();
  const std::string key = fmt::format("{}/{}/", model, recipe);
  const bool adam = recipe == "adamw";
  const Optimizer optimizer =
      adam ? Optimizer(AdamW{.betas = {0.8, 0.99}, .epsilon = 1e-6, .weight_decay = 0.1})
           : Optimizer(Sgd{.momentum = 0.9, .weight_decay = 5e-4});
  const double lr = adam ? 0.0005 : model == "resnet18" ? 0.001 : 0.01;
  const Training ours = train(model, extension, optimizer, lr);
  for (std::size_t step = 0; step < ours.losses.size(); ++step) {
    const double expected = golden.at(key + "losses").data<double>()[step];
    EXPECT_NEAR(ours.losses[step], expected, 1e-8 * expected) << "loss of step " << step;
  }
  std::size_t compared = 0;
  for (const NamedTensor& named : ours.state) {
    if (named.tensor.dtype() == DType::i64) continue;
    const Tensor tensor = cast(named.tensor, DType::f64);
    EXPECT_LT(distance_of_samples(tensor, golden.at(key + "final/" + named.name)), 1e-8)
        << named.name;
    const double expected = *golden.at(key + "norm/" + named.name).data<double>();
    EXPECT_NEAR(norm(tensor), expected, 1e-8 * expected + rounding) << named.name;
    ++compared;
  }
  const auto prefix = key + "final/";
  EXPECT_EQ(compared, static_cast<std::size_t>(std::ranges::count_if(
                          golden, [&](const auto& e) { return e.first.starts_with(prefix); })));
}

TEST(SequencesInF32, GiveTheResultsOfF64) {
  Tensor results[2];
  for (const DType dtype : {DType::f64, DType::f32}) {
    Model model =
        ModelSource(FileModel{.file = graph_file("series")}).make(graph_samples("series"), dtype);
    const std::size_t blocks = model.blocks.size();
    Network network(std::move(model), 0, blocks, dtype, {});
    network.use(initial_state(network.spec(), dtype, 1));
    const Tensor x = cast(samples_of("series", 0), dtype);
    auto pass = network.forward(x, {.seed = 1, .step = 0}, false);
    network.backward(*pass, cast(uniform("grad", {batch, 10}), dtype));
    network.use(network.step(Sgd{}, 0.1, pass->gradients, {pass->statistics}));
    results[dtype == DType::f32 ? 1 : 0] = cast(network.evaluate(x), DType::f64);
  }
  for (std::int64_t i = 0; i < results[0].element_count(); ++i)
    EXPECT_NEAR(results[1].data<double>()[i], results[0].data<double>()[i], 1e-4) << i;
}

TEST_P(ExportedNames, AreThoseOfTheModule) {
  const auto& [model, recipe, extension] = GetParam();
  std::ifstream file(golden_folder + "graph_names.txt");
  std::vector<std::string> expected, lines;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(model + " ")) expected.push_back(line);
  Model made =
      ModelSource(FileModel{.file = graph_file(model, extension)}).make(graph_samples(model));
  StateSpec spec;
  for (const auto& block : made.blocks) block->declare(spec);
  for (const NamedTensor& named : named_tensors(spec, *initial_state(spec, DType::f32, 1), true))
    lines.push_back(fmt::format("{} {} {} {}", model, named.name, to_string(named.tensor.shape()),
                                name_of(named.tensor.dtype())));
  std::ranges::sort(lines);
  std::ranges::sort(expected);
  EXPECT_EQ(lines, expected);
}

std::vector<Run> runs() {
  std::vector<Run> result;
  for (const std::string extension : {".pt2", ".onnx"}) {
    for (const std::string& model : graph_models)
      if (model != "tied" || extension == ".pt2")  // ONNX does not say what is frozen
        result.push_back({model, "sgd", extension});
    result.push_back({"vit", "adamw", extension});
  }
  for (const std::string& model : graph_models_of_pt2) result.push_back({model, "sgd", ".pt2"});
  result.push_back({"vit", "sgd", "_opset18.onnx"});
  return result;
}

std::vector<Run> files() {
  std::vector<Run> result = runs();
  result.push_back({"tied", "sgd", ".onnx"});
  return result;
}

INSTANTIATE_TEST_SUITE_P(EachModel, ExportedModel, testing::ValuesIn(runs()));
INSTANTIATE_TEST_SUITE_P(EachFile, ExportedNames, testing::ValuesIn(files()));

}  // namespace
}  // namespace troupe::testing_ops

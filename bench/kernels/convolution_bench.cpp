// Rates of the convolutions of three models, of one also in the small micro-batches of a pipeline,
// counted as direct convolution, with all that a
// training step pays for: weights reordered once a step, weight gradients written row-major.
//
//   taskset -c 0,1 convolution_bench --benchmark_filter='layer/small_resnet.*threads:2'
//
// Names read layer/MODEL/BATCHxIN->OUT,SIZE,KERNEL/ALGORITHM/DIRECTION/threads:N, and
// step/MODEL/ALGORITHM/threads:N for all layers of a model in all directions that training needs.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "ops/kernels.h"

namespace troupe {
namespace {

struct Layer {
  std::string model;
  std::int64_t batch, in, out, size, kernel;
  int times = 1;  ///< how often the model has it
};

// The wide ResNets: three pairs of blocks, each block two 3x3 convolutions, the first of a pair
// with a 1x1 across it.
const std::vector<Layer>& layers() {
  static const std::vector<Layer> all{
      {"small_resnet", 64, 1, 16, 28, 3},        {"small_resnet", 64, 16, 16, 28, 3, 4},
      {"small_resnet", 64, 16, 16, 28, 1},       {"small_resnet", 64, 16, 32, 14, 3},
      {"small_resnet", 64, 32, 32, 14, 3, 3},    {"small_resnet", 64, 16, 32, 14, 1},
      {"small_resnet", 64, 32, 64, 7, 3},        {"small_resnet", 64, 64, 64, 7, 3, 3},
      {"small_resnet", 64, 32, 64, 7, 1},        {"micro_batch", 8, 1, 16, 28, 3},
      {"micro_batch", 8, 16, 16, 28, 3, 4},      {"micro_batch", 8, 16, 16, 28, 1},
      {"micro_batch", 8, 16, 32, 14, 3},         {"micro_batch", 8, 32, 32, 14, 3, 3},
      {"micro_batch", 8, 16, 32, 14, 1},         {"micro_batch", 8, 32, 64, 7, 3},
      {"micro_batch", 8, 64, 64, 7, 3, 3},       {"micro_batch", 8, 32, 64, 7, 1},
      {"mnist_cnn", 128, 1, 16, 28, 5},          {"mnist_cnn", 128, 16, 32, 14, 5},
      {"olivia_resnet", 16, 3, 16, 32, 3},       {"olivia_resnet", 16, 16, 160, 32, 3},
      {"olivia_resnet", 16, 160, 160, 32, 3, 3}, {"olivia_resnet", 16, 16, 160, 32, 1},
      {"olivia_resnet", 16, 160, 320, 16, 3},    {"olivia_resnet", 16, 320, 320, 16, 3, 3},
      {"olivia_resnet", 16, 160, 320, 16, 1},    {"olivia_resnet", 16, 320, 640, 8, 3},
      {"olivia_resnet", 16, 640, 640, 8, 3, 3},  {"olivia_resnet", 16, 320, 640, 8, 1}};
  return all;
}

Tensor random_tensor(const Shape& shape, Layout layout = Layout::row_major) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu(), layout);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& value : result.elements<float>()) value = normal(generator);
  return result;
}

/// A layer with everything that its three directions need.
struct Work {
  Work(const Layer& layer, ConvolutionAlgorithm algorithm)
      : options{.in_channels = layer.in,
                .out_channels = layer.out,
                .kernel_h = layer.kernel,
                .kernel_w = layer.kernel,
                .padding_h = layer.kernel / 2,
                .padding_w = layer.kernel / 2,
                .algorithm = algorithm},
        kernel(kernels({}, DType::f32).convolution(options)),
        weight(random_tensor({layer.out, layer.in, layer.kernel, layer.kernel})),
        bias(random_tensor({layer.out})),
        weight_grad(Tensor::empty(weight.shape(), DType::f32, Device::cpu())),
        bias_grad(Tensor::empty(bias.shape(), DType::f32, Device::cpu())) {
    const Shape x_shape{layer.batch, layer.in, layer.size, layer.size};
    kernel->use_weights({}, weight, bias, ++version);
    // A chain of layers is in the layout that its convolutions give.
    const Tensor y = kernel->forward({}, random_tensor(x_shape));
    const bool first = layer.in % 16 != 0;
    x = random_tensor(x_shape, first ? Layout::row_major : y.layout());
    grad = random_tensor(y.shape(), y.layout());
    flop = 2.0 * static_cast<double>(y.element_count() * layer.in * layer.kernel * layer.kernel);
  }

  void new_weights(const Stream& stream) { kernel->use_weights(stream, weight, bias, ++version); }
  void forward(const Stream& stream) { benchmark::DoNotOptimize(kernel->forward(stream, x).raw()); }
  void input_gradient(const Stream& stream) {
    benchmark::DoNotOptimize(kernel->input_gradient(stream, grad, x.shape(), x.layout()).raw());
  }
  void weight_gradient(const Stream& stream) {
    kernel->weight_gradient(stream, x, grad, weight_grad, bias_grad);
  }

  ConvolutionOptions options;
  std::unique_ptr<LayerKernel> kernel;
  Tensor weight, bias, weight_grad, bias_grad, x, grad;
  std::uint64_t version = 0;
  double flop = 0;
};

using benchmark::Counter;

void set_rate(benchmark::State& state, double flop) {
  state.counters["FLOP/s"] =
      Counter(flop, Counter::kIsIterationInvariantRate, Counter::OneK::kIs1000);
}

void run_layer(benchmark::State& state, const Layer& layer, ConvolutionAlgorithm algorithm,
               void (Work::*direction)(const Stream&), int threads) {
  const Stream stream{.threads = threads};
  Work work(layer, algorithm);
  (work.*direction)(stream);
  for (auto _ : state) {
    work.new_weights(stream);
    (work.*direction)(stream);
  }
  set_rate(state, work.flop);
}

void run_step(benchmark::State& state, const std::string& model, ConvolutionAlgorithm algorithm,
              int threads) {
  const Stream stream{.threads = threads};
  std::vector<Work> chain;
  double flop = 0;
  std::int64_t batch = 0;
  for (const Layer& layer : layers())
    for (int i = 0; layer.model == model && i < layer.times; ++i) {
      chain.emplace_back(layer, algorithm);
      flop += chain.back().flop * (layer.in < 16 ? 2 : 3);  // images need no gradient
      batch = layer.batch;
    }
  const auto step = [&] {
    for (Work& work : chain) {
      work.new_weights(stream);
      work.forward(stream);
    }
    for (auto work = chain.rbegin(); work != chain.rend(); ++work) {
      work->weight_gradient(stream);
      if (work->options.in_channels >= 16) work->input_gradient(stream);
    }
  };
  step();
  for (auto _ : state) step();
  set_rate(state, flop);
  state.counters["images/s"] =
      Counter(static_cast<double>(batch), Counter::kIsIterationInvariantRate);
}

void register_all() {
  struct Direction {
    const char* name;
    void (Work::*run)(const Stream&);
  };
  const Direction directions[] = {{"forward", &Work::forward},
                                  {"input_gradient", &Work::input_gradient},
                                  {"weight_gradient", &Work::weight_gradient}};
  using Named = std::pair<const char*, ConvolutionAlgorithm>;
  for (const auto& [name, algorithm] : {Named{"direct", ConvolutionAlgorithm::direct},
                                        {"winograd", ConvolutionAlgorithm::winograd},
                                        {"automatic", ConvolutionAlgorithm::automatic}})
    for (int threads : {1, 2}) {
      for (const char* model : {"small_resnet", "micro_batch", "mnist_cnn", "olivia_resnet"})
        benchmark::RegisterBenchmark(
            fmt::format("step/{}/{}/threads:{}", model, name, threads).c_str(), run_step,
            std::string(model), algorithm, threads)
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
      if (algorithm == ConvolutionAlgorithm::automatic) continue;
      for (const Layer& layer : layers())
        for (const auto& [direction, run] : directions) {
          const bool never = (layer.in < 16 && run == &Work::input_gradient) ||
                             (layer.kernel != 3 && algorithm == ConvolutionAlgorithm::winograd);
          if (never) continue;
          benchmark::RegisterBenchmark(
              fmt::format("layer/{}/{}x{}->{},{},{}/{}/{}/threads:{}", layer.model, layer.batch,
                          layer.in, layer.out, layer.size, layer.kernel, name, direction, threads)
                  .c_str(),
              run_layer, layer, algorithm, run, threads)
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond);
        }
    }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  troupe::register_all();
  benchmark::RunSpecifiedBenchmarks();
}

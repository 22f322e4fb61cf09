// Whole training steps of a model without actors, against which bench/pytorch_step.py is set: the
// same weights, data, loss and optimizer. Waits for requests so that a script can interleave the
// two:
//
//   step_bench MODEL THREADS [auto|direct|winograd] [DROPOUT] [PRECISION]
//       MODEL: small, olivia, mnist, resnet18, resnet50, or a file of bench/file_models.py
//       PRECISION: 32-true, 64-true or bf16-mixed
//
//   losses N   begins anew without dropout; N losses on a line
//   time N     seconds of N further steps with dropout: by the clock, and of processor time
//
// Ends with its input.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "actors/precision.h"
#include "ops/loss.h"
#include "ops/models/file_model.h"
#include "ops/models/models.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "ops/optim/sgd.h"
#include "runtime/error.h"

namespace {

using namespace troupe;
using Clock = std::chrono::steady_clock;

struct Work {
  ModelSource model;
  SampleSpec samples;
  std::int64_t batch = 0;
  Precision precision = {};
};

struct WorkOptions {
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;
  double dropout = 0.01;
  Precision precision = {};
};

Work work_named(std::string_view name, const WorkOptions& options) {
  const SampleSpec mnist{.shape = {1, 28, 28}, .classes = 10};
  if (name == "small")
    return {WideResNet{.widths = {16, 16, 32, 64},
                       .dropout = options.dropout,
                       .convolution = options.convolution},
            mnist, 64};
  if (name == "mnist") return {MnistCnn{.convolution = options.convolution}, mnist, 128};
  if (name == "olivia")
    return {WideResNet{.widths = {16, 160, 320, 640},
                       .classes = 100,
                       .dropout = options.dropout,
                       .convolution = options.convolution},
            {.shape = {3, 32, 32}, .classes = 100},
            16};
  if (name == "resnet18")
    return {ResNet18{{.stem = ResNetStem::cifar, .convolution = options.convolution}},
            {.shape = {3, 32, 32}, .classes = 10},
            32};
  if (name == "resnet50")
    return {ResNet50{{.classes = 1000, .convolution = options.convolution}},
            {.shape = {3, 224, 224}, .classes = 1000},
            8};
  if (name.ends_with(".pt2"))
    return {FileModel{.file = name, .convolution = options.convolution},
            {.shape = {3, 32, 32}, .classes = 10},
            32};
  throw Error(ErrorCode::usage, fmt::format("the model is '{}'", name),
              "give small, olivia, mnist, resnet18, resnet50 or a .pt2 file");
}

ConvolutionAlgorithm algorithm_named(std::string_view name) {
  if (name == "auto") return ConvolutionAlgorithm::automatic;
  if (name == "direct") return ConvolutionAlgorithm::direct;
  if (name == "winograd") return ConvolutionAlgorithm::winograd;
  throw Error(ErrorCode::usage, fmt::format("the convolution is '{}'", name),
              "give auto, direct or winograd");
}

Precision precision_named(std::string_view name) {
  for (const auto& [known, precision] : precisions)
    if (known == name) return precision;
  throw Error(ErrorCode::usage, fmt::format("the precision is '{}'", name),
              "give 32-true, 64-true or bf16-mixed");
}

// tests/golden/troupe_random.py's `uniform`: element e is the first number of block e.
Tensor uniform(std::string_view name, const Shape& shape) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu());
  const RandomKey key{.seed = 11, .operation = operation_id(name)};
  std::uint32_t block = 0;
  for (float& value : result.elements<float>())
    value = static_cast<float>(2.0 * uniform_float(key.block(block++)[0]) - 1.0);
  return result;
}

/// A model with its data, begun anew.
class Trainer {
 public:
  Trainer(const Work& work, int threads)
      : stream_{.threads = threads, .products = work.precision.products},
        network_(work.model.make(work.samples), 0, work.model.make(work.samples).blocks.size(),
                 work.precision.dtype, stream_),
        images_(
            on_device(stream_,
                      uniform("bench/images", Shape{work.batch, work.samples.shape[0],
                                                    work.samples.shape[1], work.samples.shape[2]}),
                      work.precision.dtype)),
        classes_(Tensor::empty(Shape{work.batch}, DType::i64, Device::cpu())) {
    std::int64_t sample = 0;
    for (std::int64_t& value : classes_.elements<std::int64_t>())
      value = (3 * sample++) % work.samples.classes;
    network_.use(initial_state(network_.spec(), images_.dtype(), seed));
  }

  /// One step; the mean loss before it.
  double step() {
    const auto batch = static_cast<double>(classes_.element_count());
    const auto pass = network_.forward(images_, {.seed = seed, .step = step_++}, false);
    const LossOutput loss =
        softmax_cross_entropy(stream_, pass->result(), classes_, 1.0 / batch, true);
    network_.backward(*pass, loss.logits_grad);
    network_.use(network_.step(optimizer_, 0.001, pass->gradients, {pass->statistics}));
    return read_totals({}, loss).loss_sum / batch;
  }

 private:
  static constexpr std::uint64_t seed = 1;
  Stream stream_;
  Network network_;
  Optimizer optimizer_ = Sgd{.momentum = 0.9};
  Tensor images_, classes_;
  std::uint32_t step_ = 0;
};

void serve(const Work& work, const Work& undisturbed, int threads) {
  Trainer timed(work, threads);
  std::string request;
  int count = 0;
  while (std::cin >> request >> count) {
    if (request == "losses") {
      Trainer trainer(undisturbed, threads);
      std::vector<double> losses;
      losses.reserve(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) losses.push_back(trainer.step());
      fmt::print("{:.9g}\n", fmt::join(losses, " "));
    } else {
      const auto begin = Clock::now();
      const std::clock_t used = std::clock();
      for (int i = 0; i < count; ++i) timed.step();
      fmt::print("{:.9f} {:.9f}\n", std::chrono::duration<double>(Clock::now() - begin).count(),
                 static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    fmt::print(stderr,
               "usage: step_bench small|olivia|mnist|resnet18|resnet50|FILE.pt2 THREADS "
               "[auto|direct|winograd] [DROPOUT] [32-true|64-true|bf16-mixed]\n");
    return 2;
  }
  WorkOptions options;
  if (argc > 3) options.convolution = algorithm_named(argv[3]);
  if (argc > 4) options.dropout = std::atof(argv[4]);
  if (argc > 5) options.precision = precision_named(argv[5]);
  Work work = work_named(argv[1], options);
  options.dropout = 0;
  Work undisturbed = work_named(argv[1], options);
  work.precision = undisturbed.precision = options.precision;
  serve(work, undisturbed, std::atoi(argv[2]));
} catch (const troupe::Error& error) {
  fmt::print(stderr, "step_bench: {}\n", error.what());
  return 1;
}

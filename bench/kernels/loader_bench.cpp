// How fast a data worker prepares samples: images/s of one core, and how soon a data set is open.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "actors/data/batch_maker.h"
#include "actors/data/datasets.h"
#include "runtime/tensor/backend.h"

namespace troupe {
namespace {

/// Any device but the CPU gets images as bytes.
constexpr Backend named_only{.name = "device"};
constexpr Device device{&named_only, 0};

void prepare_batches(benchmark::State& state, const Shape& shape, std::vector<Augment> augment,
                     Device to = {}) {
  constexpr std::int64_t batch = 64, most_bytes = 200'000'000;  // more than caches hold
  const std::int64_t samples =
      std::min<std::int64_t>(6400, most_bytes / shape.element_count() / batch * batch);
  const Dataset dataset =
      open_dataset(Synthetic{.shape = {shape[0], shape[1], shape[2]}, .count = samples});
  const TransformOptions options{
      .augment = std::move(augment), .mean = {0.286}, .std = {0.353}, .device = to};
  const BatchMaker maker(dataset, Split::train, options);
  Sampler sampler({.samples = samples, .batch_size = batch});
  std::int64_t step = 0;
  for (auto _ : state) benchmark::DoNotOptimize(maker.make(sampler.micro_batches(step++, 0)[0]));
  state.SetItemsProcessed(state.iterations() * batch);
}

void normalise(benchmark::State& state, const Shape& shape) { prepare_batches(state, shape, {}); }
void flip_crop_normalise(benchmark::State& state, const Shape& shape) {
  prepare_batches(state, shape, {Augment::flip, Augment::crop});
}
void bytes(benchmark::State& state, const Shape& shape) {
  prepare_batches(state, shape, {}, device);
}
void flip_crop_bytes(benchmark::State& state, const Shape& shape) {
  prepare_batches(state, shape, {Augment::flip, Augment::crop}, device);
}
BENCHMARK_CAPTURE(normalise, 1x28x28, Shape{1, 28, 28});
BENCHMARK_CAPTURE(normalise, 3x32x32, Shape{3, 32, 32});
BENCHMARK_CAPTURE(normalise, 3x224x224, Shape{3, 224, 224});
BENCHMARK_CAPTURE(bytes, 3x224x224, Shape{3, 224, 224});
BENCHMARK_CAPTURE(flip_crop_normalise, 1x28x28, Shape{1, 28, 28});
BENCHMARK_CAPTURE(flip_crop_normalise, 3x32x32, Shape{3, 32, 32});
BENCHMARK_CAPTURE(flip_crop_normalise, 3x224x224, Shape{3, 224, 224});
BENCHMARK_CAPTURE(flip_crop_bytes, 3x32x32, Shape{3, 32, 32});
BENCHMARK_CAPTURE(flip_crop_bytes, 3x224x224, Shape{3, 224, 224});

// A folder of photographs, such as 500 × 375 JPEGs: TROUPE_BENCH_IMAGES has train/CLASS/ and
// val/CLASS/. Skipped where it is not set.
void decode_crop_flip_normalise(benchmark::State& state) {
  const char* path = std::getenv("TROUPE_BENCH_IMAGES");
  if (path == nullptr) return state.SkipWithError("TROUPE_BENCH_IMAGES is not set");
  const Dataset dataset = open_dataset(ImageFolder{.path = path});
  const TransformOptions options{.augment = {Augment::random_resized_crop, Augment::flip},
                                 .mean = {0.485, 0.456, 0.406},
                                 .std = {0.229, 0.224, 0.225}};
  const BatchMaker maker(dataset, Split::train, options);
  constexpr std::int64_t batch = 25;
  Sampler sampler({.samples = dataset.count(Split::train), .batch_size = batch});
  std::int64_t step = 0;
  for (auto _ : state) benchmark::DoNotOptimize(maker.make(sampler.micro_batches(step++, 0)[0]));
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(decode_crop_flip_normalise)->Unit(benchmark::kMillisecond);

// Returns once labels and sizes are known; range(0) is data.limit.
void open_fashion_mnist(benchmark::State& state) {
  for (auto _ : state) {
    auto dataset =
        std::make_unique<Dataset>(open_dataset(FashionMnist{}, {.limit = state.range(0)}));
    state.PauseTiming();
    dataset.reset();  // waits for the images
    state.ResumeTiming();
  }
}
// Returns once any image can be had.
void open_fashion_mnist_and_wait(benchmark::State& state) {
  for (auto _ : state) {
    const Dataset dataset = open_dataset(FashionMnist{}, {.limit = state.range(0)});
    benchmark::DoNotOptimize(dataset.stored(Split::train)->samples);
  }
}
BENCHMARK(open_fashion_mnist)->Arg(0)->Iterations(10)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(open_fashion_mnist_and_wait)
    ->Arg(0)
    ->Arg(6400)
    ->Iterations(10)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void order_an_epoch(benchmark::State& state) {
  std::int64_t epoch = 0;
  for (auto _ : state) benchmark::DoNotOptimize(epoch_order({.samples = 60000}, epoch++));
}
BENCHMARK(order_an_epoch)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace troupe

BENCHMARK_MAIN();

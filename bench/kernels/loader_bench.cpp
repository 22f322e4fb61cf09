// How fast a data worker prepares samples: images/s of one core, and how soon a data set is open.

#include <benchmark/benchmark.h>

#include <memory>

#include "actors/data/batch_maker.h"
#include "actors/data/datasets.h"

namespace troupe {
namespace {

void prepare_batches(benchmark::State& state, const Shape& shape, std::vector<Augment> augment) {
  constexpr std::int64_t samples = 6400, batch = 64;
  const Dataset dataset =
      open_dataset(Synthetic{.shape = {shape[0], shape[1], shape[2]}, .count = samples});
  const TransformOptions options{.augment = std::move(augment), .mean = {0.286}, .std = {0.353}};
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
BENCHMARK_CAPTURE(normalise, 1x28x28, Shape{1, 28, 28});
BENCHMARK_CAPTURE(normalise, 3x32x32, Shape{3, 32, 32});
BENCHMARK_CAPTURE(flip_crop_normalise, 1x28x28, Shape{1, 28, 28});
BENCHMARK_CAPTURE(flip_crop_normalise, 3x32x32, Shape{3, 32, 32});

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

// Bytes a second of the vectorised kernels, beside memcpy over as many bytes, for the shapes of the
// small wide ResNet (batch 64), and of optimizers over 100 M parameters, with 1 or 2 threads. Bytes
// are those that the algorithm must read and write; a kernel is done when it moves them about as
// fast as memcpy.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/parallel.h"
#include "ops/kernels.h"

namespace troupe {
namespace {

Tensor random_tensor(const Shape& shape, Layout layout) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu(), layout);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& value : result.elements<float>()) value = normal(generator);
  return result;
}

struct Inputs {
  Tensor x, grad, z, square, weight, bias, pooled;
  std::array<Tensor, 3> updated;  ///< what an optimizer writes to, as in training
  ChannelMoments moments;
};

const KernelTable& table() { return kernels(Device{}, DType::f32); }

ChannelMoments moments(const Stream& stream, const Tensor& x) {
  Tensor none;
  return table().channel_moments(stream, x, {}, {}, 0.0, none, none);
}

Inputs inputs_of(const Shape& shape, Layout layout) {
  Inputs in;
  in.x = random_tensor(shape, layout);
  in.grad = random_tensor(shape, layout);
  in.weight = random_tensor({shape[1]}, Layout::row_major);
  in.bias = random_tensor({shape[1]}, Layout::row_major);
  in.moments = moments({}, in.x);
  in.z = table().batch_norm({}, in.x, in.weight, in.bias, in.moments, 1e-5,
                            {.relu = true, .dropout = 0.01f});
  in.square = random_tensor(shape, layout);
  for (float& value : in.square.elements<float>()) value *= value;
  in.pooled = random_tensor({shape[0], shape[1], shape[2] / 2, shape[3] / 2}, layout);
  return in;
}

struct Kernel {
  std::string name;
  double passes;  ///< over the bytes of x, reads and writes
  std::function<void(const Stream&, Inputs&)> run;
};

void copy(const Stream& stream, const Tensor& from, Tensor& to) {
  cpu::parallel(stream, static_cast<std::int64_t>(from.bytes()), 1 << 15,
                [&](std::int64_t begin, std::int64_t end) {
                  std::memcpy(to.raw() + begin, from.raw() + begin,
                              static_cast<std::size_t>(end - begin));
                });
}

NormGradients norm_backward(const Stream& s, const Inputs& in, const NormEpilogue& epilogue) {
  Tensor none;
  return table().batch_norm_backward(s, in.grad, in.x, in.z, in.weight, in.bias, in.moments, 1e-5,
                                     epilogue, true, none, none);
}

Tensor flat(const Tensor& t) {
  return Tensor::view(t.storage(), 0, {t.element_count()}, DType::f32);
}

/// Made by the first call.
std::array<Tensor, 3>& updated(Inputs& in) {
  for (Tensor& tensor : in.updated)
    if (!tensor.defined()) tensor = Tensor::zeros({in.x.element_count()});
  return in.updated;
}

// NOLINTNEXTLINE(readability-function-size): a list
std::vector<Kernel> all_kernels() {
  const NormEpilogue relu{.relu = true}, dropped{.relu = true, .dropout = 0.01f};
  const auto norm = [](const Stream& s, const Inputs& in, const NormEpilogue& epilogue) {
    table().batch_norm(s, in.x, in.weight, in.bias, in.moments, 1e-5, epilogue);
  };
  return {
      {"memcpy", 2,
       [](const Stream& s, const Inputs& in) {
         Tensor to = Tensor::empty(in.x.shape(), DType::f32, Device::cpu(), in.x.layout());
         copy(s, in.x, to);
       }},
      {"memcpy_in_place", 2, [](const Stream& s, Inputs& in) { copy(s, in.x, in.z); }},
      {"relu", 2, [](const Stream& s, const Inputs& in) { table().relu(s, in.x); }},
      {"relu_backward", 3,
       [](const Stream& s, const Inputs& in) { table().relu_backward(s, in.z, in.grad); }},
      {"add", 3,
       [](const Stream& s, const Inputs& in) {
         table().arithmetic(s, ArithmeticOperation::add, in.x, in.grad);
       }},
      {"accumulate", 3, [](const Stream& s, Inputs& in) { table().accumulate(s, in.grad, in.x); }},
      {"dropout", 2,
       [](const Stream& s, const Inputs& in) { table().dropout(s, in.x, 0.01f, {}); }},
      {"channel_moments", 1, [](const Stream& s, const Inputs& in) { moments(s, in.x); }},
      {"batch_norm", 2, [=](const Stream& s, const Inputs& in) { norm(s, in, {}); }},
      {"batch_norm_relu", 2, [=](const Stream& s, const Inputs& in) { norm(s, in, relu); }},
      {"batch_norm_relu_dropout", 2,
       [=](const Stream& s, const Inputs& in) { norm(s, in, dropped); }},
      {"batch_norm_relu_add", 3,
       [=](const Stream& s, const Inputs& in) {
         norm(s, in, {.relu = true, .residual = in.grad});
       }},
      {"batch_norm_backward", 5,
       [](const Stream& s, const Inputs& in) { norm_backward(s, in, {}); }},
      {"batch_norm_relu_backward", 5,
       [=](const Stream& s, const Inputs& in) { norm_backward(s, in, relu); }},
      {"batch_norm_relu_dropout_backward", 7,
       [=](const Stream& s, const Inputs& in) { norm_backward(s, in, dropped); }},
      {"max_pool", 1.25, [](const Stream& s, const Inputs& in) { table().max_pool(s, in.x, {}); }},
      {"max_pool_backward", 2.25,
       [](const Stream& s, const Inputs& in) {
         table().max_pool_backward(s, in.pooled, in.x, {});
       }},
      {"average_pool", 1.25,
       [](const Stream& s, const Inputs& in) { table().average_pool(s, in.x, {}); }},
      {"average_pool_backward", 1.25,
       [](const Stream& s, const Inputs& in) {
         table().average_pool_backward(s, in.pooled, in.x.shape(), {});
       }},
      {"global_average_pool", 1,
       [](const Stream& s, const Inputs& in) { table().adaptive_average_pool(s, in.x, 1, 1); }},
      {"momentum_step", 5,
       [](const Stream& s, Inputs& in) {
         auto& [weights, momentum, none] = updated(in);
         table().momentum_step(
             s, {{{.momentum = 0.9}, flat(in.x), flat(in.grad), flat(in.z), weights, momentum}});
       }},
      {"adam_step", 7,
       [](const Stream& s, Inputs& in) {
         auto& [weights, average, square] = updated(in);
         table().adam_step(s, {{{.lr = 1e-3, .weight_decay = 0.01, .decoupled_decay = true},
                                flat(in.x),
                                flat(in.grad),
                                flat(in.z),
                                flat(in.square),
                                weights,
                                average,
                                square}});
       }},
  };
}

/// What an optimizer or a copy needs, for memory far beyond all caches.
Inputs large_inputs(std::int64_t count) {
  Inputs in;
  for (Tensor* tensor : {&in.x, &in.grad, &in.z, &in.square}) {
    *tensor = Tensor::empty({count}, DType::f32, Device::cpu());
    std::ranges::fill(tensor->elements<float>(), 0.5f);
  }
  return in;
}

void measure(benchmark::State& state, const Kernel& kernel,
             const std::function<Inputs()>& make_inputs, int threads) {
  Inputs in = make_inputs();
  const Stream stream{.threads = threads};
  kernel.run(stream, in);  // its memory has pages then
  for (auto _ : state) kernel.run(stream, in);
  const auto bytes = kernel.passes * static_cast<double>(in.x.bytes());
  state.counters["GB/s"] = benchmark::Counter(bytes * static_cast<double>(state.iterations()) / 1e9,
                                              benchmark::Counter::kIsRate);
}

void add_benchmark(const Kernel& kernel, const std::string& size, int threads,
                   const std::function<Inputs()>& make_inputs) {
  const std::string name = kernel.name + "/" + size + "/threads:" + std::to_string(threads);
  benchmark::RegisterBenchmark(name.c_str(), measure, kernel, make_inputs, threads)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

void register_all() {
  struct Size {
    Shape shape;
    Layout layout;
  };
  const std::vector<Size> sizes{{{64, 16, 28, 28}, Layout::nchw16c},
                                {{64, 16, 28, 28}, Layout::nhwc},
                                {{64, 32, 14, 14}, Layout::nchw16c},
                                {{64, 32, 14, 14}, Layout::nhwc},
                                {{64, 64, 7, 7}, Layout::nchw16c}};
  for (const Size& size : sizes)
    for (int threads : {1, 2})
      for (const Kernel& kernel : all_kernels())
        add_benchmark(kernel, std::string(name_of(size.layout)) + to_string(size.shape), threads,
                      [size] { return inputs_of(size.shape, size.layout); });
  for (int threads : {1, 2})
    for (const Kernel& kernel : all_kernels())
      if (kernel.name == "memcpy_in_place" || kernel.name.ends_with("_step"))
        add_benchmark(kernel, "100M", threads, [] { return large_inputs(100'000'000); });
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  troupe::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}

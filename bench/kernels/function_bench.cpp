// Bytes a second of the kernels of small vision transformers (32 images of 65 tokens) and of
// squeeze-and-excitation gates, beside memcpy over as many bytes, with 1 or 2 threads. Bytes are
// those that the algorithm must read and write.

#include <benchmark/benchmark.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/parallel.h"
#include "ops/kernels.h"

namespace troupe {
namespace {

const KernelTable& table() { return kernels(Device{}, DType::f32); }

Tensor random_tensor(const Shape& shape, Layout layout = Layout::row_major) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu(), layout);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& value : result.elements<float>()) value = normal(generator);
  return result;
}

struct Kernel {
  std::string name;
  double passes;  ///< over the bytes of x, reads and writes
  std::function<void(const Stream&)> run;
};

Kernel memcpy_of(const Tensor& x) {
  return {"memcpy", 2, [=](const Stream& s) {
            const Tensor to = Tensor::empty(x.shape(), DType::f32, Device::cpu(), x.layout());
            cpu::parallel(s, static_cast<std::int64_t>(x.bytes()), 1 << 15,
                          [&](std::int64_t begin, std::int64_t end) {
                            std::memcpy(to.raw() + begin, x.raw() + begin,
                                        static_cast<std::size_t>(end - begin));
                          });
          }};
}

std::vector<Kernel> row_kernels(const Shape& shape) {
  const std::int64_t features = shape.dim(-1);
  const int last = shape.rank() - 1;
  const Tensor x = random_tensor(shape), grad = random_tensor(shape);
  const Tensor weight = random_tensor({features}), bias = random_tensor({features});
  const LayerNormOutput norm = table().layer_norm({}, x, weight, bias, features, 1e-5);
  const Tensor probabilities = table().softmax({}, x, last, false);
  const Tensor row = random_tensor({1, 1, features});
  const auto gelu = ActivationFunction::gelu, tanh = ActivationFunction::gelu_tanh;
  return {
      memcpy_of(x),
      {"layer_norm", 2,
       [=](const Stream& s) { table().layer_norm(s, x, weight, bias, features, 1e-5); }},
      {"layer_norm_backward", 3,
       [=](const Stream& s) { table().layer_norm_backward(s, grad, x, weight, norm, features); }},
      {"gelu", 2, [=](const Stream& s) { table().activate(s, gelu, x); }},
      {"gelu_backward", 3, [=](const Stream& s) { table().activate_backward(s, gelu, x, grad); }},
      {"gelu_tanh", 2, [=](const Stream& s) { table().activate(s, tanh, x); }},
      {"gelu_tanh_backward", 3,
       [=](const Stream& s) { table().activate_backward(s, tanh, x, grad); }},
      {"silu", 2, [=](const Stream& s) { table().activate(s, ActivationFunction::silu, x); }},
      {"softmax", 2, [=](const Stream& s) { table().softmax(s, x, last, false); }},
      {"softmax_backward", 3,
       [=](const Stream& s) { table().softmax_backward(s, probabilities, grad, last, false); }},
      {"add_row", 2,
       [=](const Stream& s) { table().arithmetic(s, ArithmeticOperation::add, x, row); }},
      {"sum_to_row", 1, [=](const Stream& s) { table().sum_to(s, grad, {}, row.shape(), 1); }},
      {"mean_of_tokens", 1,
       [=](const Stream& s) {
         table().sum_to(s, x, {}, {shape[0], 1, shape[2]}, 0.1);
       }},
      {"mean_of_rows", 1, [=](const Stream& s) {
         table().sum_to(s, x, {}, {shape[0], shape[1], 1}, 0.1);
       }}};
}

std::vector<Kernel> gate_kernels(const Shape& shape, Layout layout) {
  const Tensor x = random_tensor(shape, layout), grad = random_tensor(shape, layout);
  const Shape one_pixel{shape[0], shape[1], 1, 1};
  const Tensor gate = random_tensor(one_pixel);
  const auto multiply = ArithmeticOperation::multiply;
  return {
      memcpy_of(x),
      {"gate", 2, [=](const Stream& s) { table().arithmetic(s, multiply, x, gate); }},
      {"gate_backward", 2, [=](const Stream& s) { table().sum_to(s, grad, x, one_pixel, 1.0); }},
      {"mean_of_pixels", 1, [=](const Stream& s) { table().sum_to(s, x, {}, one_pixel, 0.1); }},
      {"hardswish", 2,
       [=](const Stream& s) { table().activate(s, ActivationFunction::hardswish, x); }}};
}

void measure(benchmark::State& state, const Kernel& kernel, double bytes, int threads) {
  const Stream stream{.threads = threads};
  for (auto _ : state) kernel.run(stream);
  state.counters["GB/s"] =
      benchmark::Counter(kernel.passes * bytes * static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate);
}

void add_benchmarks(const std::vector<Kernel>& kernels, const std::string& size,
                    std::int64_t elements) {
  for (const int threads : {1, 2})
    for (const Kernel& kernel : kernels)
      benchmark::RegisterBenchmark(
          (kernel.name + "/" + size + "/threads:" + std::to_string(threads)).c_str(), measure,
          kernel, static_cast<double>(elements) * sizeof(float), threads)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
}

void register_all() {
  for (const Shape& shape : {Shape{32, 65, 192}, Shape{32, 65, 768}, Shape{96, 65, 65}})
    add_benchmarks(row_kernels(shape), to_string(shape), shape.element_count());
  const Shape images{32, 96, 14, 14};
  for (const Layout layout : {Layout::row_major, Layout::nhwc, Layout::nchw16c})
    add_benchmarks(gate_kernels(images, layout), std::string(name_of(layout)) + to_string(images),
                   images.element_count());
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  troupe::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}

#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

constexpr double bound_of(DType dtype) { return dtype == DType::f64 ? 1e-15 : 1e-7; }

TEST(CudaMemory, FillsTensorsThatBeginAtAnyElement) {
  EmulatedStream stream;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const KernelTable& cuda = kernels(stream.get().device, dtype);
    Tensor all = zeros(stream.get(), {1031}, dtype);
    Tensor part = all.narrow(3, 1021), none = all.narrow(5, 0);
    cuda.fill(stream.get(), -1.5, part);
    cuda.fill(stream.get(), 2.0, none);
    Tensor expected = Tensor::zeros({1031}, DType::f64);
    std::fill_n(expected.data<double>() + 3, 1021, -1.5);
    expect_near(stream, all, expected, 0.0);
  }
}

TEST(CudaMemory, ScalesFromEachTypeToEach) {
  EmulatedStream stream;
  const Tensor x = cast(cast(random_tensor({777}, 1), DType::f32), DType::f64);
  Tensor expected = Tensor::empty({777}, DType::f64, Device::cpu());
  reference::scale({}, x, 1.0 / 3, expected);
  for (const DType from : {DType::f32, DType::f64})
    for (const DType to : {DType::f32, DType::f64}) {
      Tensor y = Tensor::empty({777}, to, stream.get().device);
      kernels(stream.get().device, from)
          .scale(stream.get(), on_device(stream.get(), x, from), 1.0 / 3, y);
      expect_near(stream, y, expected, to == DType::f64 ? 0.0 : 6e-8);
    }
}

TEST(CudaMemory, FoldsInF64) {
  EmulatedStream stream;
  const Tensor seen = random_tensor({301}, 1), before = random_tensor({301}, 2);
  Tensor expected = before.clone();
  reference::fold({}, seen, 0.1, expected);
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor running = zeros(stream.get(), {301}, dtype);
    const KernelTable& cuda = kernels(stream.get().device, dtype);
    cuda.copy(stream.get(), before, running);
    cuda.fold(stream.get(), on_device(stream.get(), seen, dtype), 0.1, running);
    expect_near(stream, running, expected, bound_of(dtype));
  }
}

// More arrays than fit the arguments of one launch.
TEST(CudaMemory, SumsSquaresOfAnyNumberOfArraysAndElementsInF64) {
  EmulatedStream stream;
  std::vector<Tensor> all;
  for (int i = 0; i < 30; ++i)
    for (const std::int64_t count : {0, 1, 31, 257, 4096, 4097, i == 7 ? 20'011 : 2})
      all.push_back(cast(cast(random_tensor({count + 1}, all.size()), DType::f32), DType::f64)
                        .narrow(1, count));
  Tensor expected = Tensor::empty({std::ssize(all)}, DType::f64, Device::cpu());
  reference::square_sums({}, all, expected);
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<Tensor> there;
    for (const Tensor& x : all) there.push_back(on_device(stream.get(), x, dtype));
    Tensor sums = Tensor::empty(expected.shape(), DType::f64, stream.get().device);
    const KernelTable& cuda = kernels(stream.get().device, dtype);
    cuda.square_sums(stream.get(), there, sums);
    expect_near(stream, sums, expected, 1e-13);
    Tensor alone = Tensor::empty({1}, DType::f64, stream.get().device);
    for (const std::size_t i : {std::size_t{4}, std::size_t{55}, all.size() - 2}) {
      cuda.square_sums(stream.get(), {there[i]}, alone);
      EXPECT_EQ(on_cpu(stream.get(), alone).elements<double>()[0],
                on_cpu(stream.get(), sums).elements<double>()[i])
          << "whatever arrays are beside it";
    }
  }
}

TEST(CudaMemory, SumOfSquaresIsInfiniteOrNaNWithAnElementThatIs) {
  EmulatedStream stream;
  for (const double value : {HUGE_VAL, std::nan("")}) {
    Tensor x = Tensor::zeros({5000});
    x.data<float>()[4321] = static_cast<float>(value);
    const Tensor there = on_device(stream.get(), x);
    Tensor sums = Tensor::empty({2}, DType::f64, stream.get().device);
    kernels(stream.get().device, DType::f32)
        .square_sums(stream.get(), {there.narrow(0, 4000), there}, sums);
    const Tensor found = on_cpu(stream.get(), sums);
    EXPECT_EQ(found.elements<double>()[0], 0.0);
    const double with = found.elements<double>()[1];
    EXPECT_TRUE(std::isnan(value) ? std::isnan(with) : with == value);
  }
}

}  // namespace
}  // namespace troupe::testing

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

struct Sizes {
  std::int64_t rows, features, indices;
};

const std::vector<Sizes>& sizes() {
  static const std::vector<Sizes> all{
      {1, 1, 1},      {7, 4, 30},    {2, 33, 300}, {1, 5, 1500},  // few rows: parts of the indices
      {200, 12, 300}, {2, 260, 128},  // several rows for a block, and several features
      {4, 5, 0},      {3, 0, 4},
  };
  return all;
}

Tensor indices_of(const Sizes& s) {
  std::mt19937 random(5);
  Tensor indices = Tensor::empty({s.indices}, DType::i64, Device::cpu());
  for (std::int64_t& index : indices.elements<std::int64_t>())
    index = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(s.rows));
  return indices;
}

Tensor as_numbers(const Tensor& indices, DType dtype) {
  Tensor numbers = Tensor::empty(indices.shape(), DType::f64, Device::cpu());
  std::ranges::copy(indices.elements<std::int64_t>(), numbers.data<double>());
  return cast(numbers, dtype);
}

TEST(CudaEmbedding, GathersAndAddsUpRows) {
  EmulatedStream stream;
  for (const Sizes& s : sizes())
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(std::to_string(s.rows) + " rows, " + std::to_string(s.indices) + " indices");
      const KernelTable& cuda = kernels(stream.get().device, dtype);
      const Tensor weight = random_tensor({s.rows, s.features}, 1);
      const Tensor grad = random_tensor({s.indices, s.features}, 2), whole = indices_of(s);
      Tensor expected = Tensor::empty(weight.shape(), DType::f64, Device::cpu());
      reference::embedding_backward({}, grad, whole, expected);
      for (const Tensor& indices : {whole, as_numbers(whole, dtype)}) {
        const Tensor at = on_device(stream.get(), indices);
        expect_near(stream,
                    cuda.embedding(stream.get(), on_device(stream.get(), weight, dtype), at),
                    reference::embedding({}, weight, whole), 1e-7);
        Tensor sums = Tensor::empty(weight.shape(), dtype, stream.get().device);
        cuda.embedding_backward(stream.get(), on_device(stream.get(), grad, dtype), at, sums);
        expect_near(stream, sums, expected, dtype == DType::f64 ? 1e-13 : 1e-5);
      }
    }
}

TEST(CudaEmbedding, TakesAWeightThatBeginsBetweenPacks) {
  EmulatedStream stream;
  const Tensor all = random_tensor({41}, 1), indices = indices_of({5, 8, 12});
  const Tensor weight = on_device(stream.get(), all, DType::f32).narrow(1, 40).reshape({5, 8});
  expect_near(stream,
              kernels(stream.get().device, DType::f32)
                  .embedding(stream.get(), weight, on_device(stream.get(), indices)),
              reference::embedding({}, all.narrow(1, 40).reshape({5, 8}), indices), 1e-7);
}

// Sums in another order would differ in their last bits.
TEST(CudaEmbedding, AddsInTheOrderOfTheIndices) {
  EmulatedStream stream;
  const Sizes s{200, 8, 399};
  const Tensor grad = random_tensor({s.indices, s.features}, 2), indices = indices_of(s);
  Tensor expected = Tensor::empty({s.rows, s.features}, DType::f64, Device::cpu());
  reference::embedding_backward({}, grad, indices, expected);
  Tensor sums = Tensor::empty(expected.shape(), DType::f64, stream.get().device);
  kernels(stream.get().device, DType::f64)
      .embedding_backward(stream.get(), on_device(stream.get(), grad),
                          on_device(stream.get(), indices), sums);
  expect_near(stream, sums, expected, 0.0);
}

TEST(CudaEmbedding, GivesNaNForWhatIsNoRowAndNoGradient) {
  EmulatedStream stream;
  const std::vector<float> numbers{1.0f, -1.0f, 3.0f, 0.5f, std::nanf(""), 1e30f, 0.0f};
  const std::vector<std::int64_t> whole{1, -1, 3, std::int64_t{1} << 62, -5, 4, 0};
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const Tensor weight = on_device(stream.get(), random_tensor({3, 4}, 1), DType::f32);
  const Tensor grad = on_device(stream.get(), random_tensor({7, 4}, 2), DType::f32);
  for (const Tensor& indices :
       {Tensor::from<float>({7}, numbers), Tensor::from<std::int64_t>({7}, whole)}) {
    const Tensor at = on_device(stream.get(), indices);
    const Tensor y = on_cpu(stream.get(), cuda.embedding(stream.get(), weight, at));
    for (std::int64_t i = 0; i < 28; ++i)
      EXPECT_EQ(std::isnan(y.data<float>()[i]), i >= 4 && i < 24) << i;
    Tensor sums = Tensor::empty({3, 4}, DType::f32, stream.get().device);
    cuda.embedding_backward(stream.get(), grad, at, sums);
    const Tensor found = on_cpu(stream.get(), sums), from = on_cpu(stream.get(), grad);
    for (std::int64_t f = 0; f < 4; ++f) {
      EXPECT_EQ(found.data<float>()[f], from.data<float>()[24 + f]);
      EXPECT_EQ(found.data<float>()[4 + f], from.data<float>()[f]);
      EXPECT_EQ(found.data<float>()[8 + f], 0.0f);
    }
  }
}

}  // namespace
}  // namespace troupe::testing

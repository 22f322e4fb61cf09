#include "actors/gradient_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "runtime/error.h"
#include "runtime/tensor/allocator.h"

namespace troupe {
namespace {

constexpr Stream stream{};

Tensor leaf(std::uint32_t micro_batch) {
  Tensor tensor = Tensor::empty({3}, DType::f32, Device::cpu());
  for (std::size_t e = 0; e < 3; ++e)
    tensor.elements<float>()[e] =
        1.0f / (1.0f + static_cast<float>(std::size_t{3} * micro_batch + e));
  return tensor;
}

std::vector<float> sum_in_order(const std::vector<std::uint32_t>& order) {
  GradientTree tree(static_cast<std::uint32_t>(order.size()), kernels({}, DType::f32), stream);
  for (std::uint32_t i : order) {
    EXPECT_FALSE(tree.sum());
    tree.add(i, leaf(i));
  }
  const auto sum = tree.sum();
  EXPECT_TRUE(sum);
  return {sum->elements<float>().begin(), sum->elements<float>().end()};
}

TEST(GradientTree, GivesTheSameBitsInAnyOrderOfArrival) {
  std::mt19937 random(5);
  for (std::uint32_t count = 1; count <= 17; ++count) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    const auto expected = sum_in_order(order);
    for (int i = 0; i < 20; ++i) {
      std::ranges::shuffle(order, random);
      EXPECT_EQ(sum_in_order(order), expected) << count << " micro-batches";
    }
  }
}

TEST(GradientTree, SumsPairsOfPairs) {
  const auto f = [](std::uint32_t i) { return leaf(i).elements<float>()[0]; };
  EXPECT_EQ(sum_in_order({0, 1, 2, 3, 4, 5})[0], ((f(0) + f(1)) + (f(2) + f(3))) + (f(4) + f(5)));
  EXPECT_EQ(sum_in_order({0, 1, 2})[0], (f(0) + f(1)) + f(2));
}

TEST(GradientTree, LeavesWhatItWasGivenAsItWas) {
  // Others may listen to the same gradients.
  GradientTree tree(4, kernels({}, DType::f32), stream);
  std::vector<Tensor> leaves;
  for (std::uint32_t i = 0; i < 4; ++i) leaves.push_back(leaf(i));
  for (std::uint32_t i = 0; i < 4; ++i) tree.add(i, leaves[i]);
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(leaves[i].elements<float>()[0], leaf(i).elements<float>()[0]);
}

TEST(GradientTree, RefusesPlacesThatItDoesNotHave) {
  GradientTree tree(4, kernels({}, DType::f32), stream);
  for (const TreePlace place : {TreePlace{64, 0}, TreePlace{UINT32_MAX, 0}, TreePlace{0, 4},
                                TreePlace{2, 1}, TreePlace{31, UINT32_MAX}})
    EXPECT_THROW(tree.add(place, leaf(0)), Error) << place.level << ", " << place.index;
}

TEST(GradientTree, HoldsAboutTheLogarithmOfWhatItWasGivenInOrder) {
  const auto in_use = [] { return CachingAllocator::of({}).counters().in_use_bytes; };
  const std::size_t before = in_use();
  const Tensor one = leaf(0);
  const std::size_t each = in_use() - before;
  GradientTree tree(64, kernels({}, DType::f32), stream);
  for (std::uint32_t i = 0; i < 64; ++i) {
    tree.add(i, leaf(i));
    EXPECT_LE(in_use() - before - each, 7 * each);
  }
  EXPECT_EQ(in_use() - before, 2 * each);  // `one` and the sum
}

TEST(GradientTree, LetsModelsWithoutParametersThrough) {
  GradientTree tree(2, kernels({}, DType::f32), stream);
  tree.add(0, Tensor::empty({0}, DType::f32, Device::cpu()));
  tree.add(1, Tensor::empty({0}, DType::f32, Device::cpu()));
  EXPECT_TRUE(tree.sum());
}

}  // namespace
}  // namespace troupe

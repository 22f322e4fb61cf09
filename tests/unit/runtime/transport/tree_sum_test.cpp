#include "runtime/transport/tree_sum.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::transport {
namespace {

template <class T>
std::vector<T> sum(const std::vector<std::vector<T>>& parts) {
  std::vector<const std::byte*> at;
  for (const auto& part : parts) at.push_back(reinterpret_cast<const std::byte*>(part.data()));
  std::vector<T> out(parts.front().size());
  tree_sum(dtype_of<T>, at, reinterpret_cast<std::byte*>(out.data()), out.size());
  return out;
}

TEST(TreeSum, AddsNeighboursFirst) {
  const float big = 1e8f;
  // (1e8 + 1) + (-1e8 + 1): each 1 is lost in its pair; in order, the last one would stay.
  EXPECT_EQ(sum<float>({{big}, {1}, {-big}, {1}}).front(), 0.0f);
  // ((1e8 - 1e8) + (1 + 1)) + 1: a missing right half passes the left.
  EXPECT_EQ(sum<float>({{big}, {-big}, {1}, {1}, {1}}).front(), 3.0f);
  EXPECT_EQ(sum<double>({{0.5}}).front(), 0.5);
}

TEST(TreeSum, RoundsSmallTypesAtEveryNode) {
  const auto bf = [](float value) { return to_bfloat16(value); };
  // 256 + 1 rounds to 256 (ties to even), twice; the sum in f32, rounded once, would be 258.
  EXPECT_EQ(to_float(sum<BFloat16>({{bf(256)}, {bf(1)}, {bf(0)}, {bf(1)}}).front()), 256.0f);
  EXPECT_EQ(to_float(sum<Float16>({{to_float16(2048)}, {to_float16(1)}}).front()), 2048.0f);
}

TEST(TreeSum, KeepsWhatIsNotANumberAndInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto half = sum<BFloat16>({{to_bfloat16(infinity)}, {to_bfloat16(-infinity)}}).front();
  EXPECT_NE(to_float(half), to_float(half));
  EXPECT_EQ(to_float(sum<BFloat16>({{to_bfloat16(3e38f)}, {to_bfloat16(3e38f)}}).front()),
            infinity);
}

TEST(TreeSum, WrapsIntegers) {
  EXPECT_EQ(sum<std::int32_t>({{std::numeric_limits<std::int32_t>::max()}, {1}}).front(),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(sum<std::int64_t>({{1}, {2}, {3}}).front(), 6);
}

TEST(TreeSum, MayWriteIntoAnyOfItsParts) {
  for (std::size_t target = 0; target < 5; ++target) {
    std::vector<std::vector<float>> parts;
    for (int part = 0; part < 5; ++part) {
      parts.emplace_back();
      for (int e = 0; e < 3000; ++e)
        parts.back().push_back(1.0f / static_cast<float>(part + 3 * e + 1));
    }
    const std::vector<float> wanted = sum<float>(parts);
    std::vector<const std::byte*> at;
    for (const auto& part : parts) at.push_back(reinterpret_cast<const std::byte*>(part.data()));
    tree_sum(DType::f32, at, reinterpret_cast<std::byte*>(parts[target].data()), 3000);
    EXPECT_EQ(parts[target], wanted);
  }
}

TEST(TreeSum, RefusesTypesWithoutASum) {
  EXPECT_FALSE(has_sum(DType::boolean));
  EXPECT_THROW(tree_sum(DType::u8, {}, nullptr, 0), Error);
}

}  // namespace
}  // namespace troupe::transport

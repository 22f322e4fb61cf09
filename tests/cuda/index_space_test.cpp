#include "ops/cuda/index_space.h"

#include <gtest/gtest.h>

#include <limits>

namespace troupe::cuda {
namespace {

TEST(CudaDivisor, IsExactUpToTheLargestNumber) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t by : {std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{16},
                                std::int64_t{641}, std::int64_t{50'257}, std::int64_t{1} << 32,
                                (std::int64_t{1} << 32) + 1, most / 2, most - 1, most}) {
    const Divisor divisor(by);
    for (const std::int64_t quotient : {std::int64_t{0}, std::int64_t{1}, most / by / 3, most / by})
      for (const std::int64_t rest : {std::int64_t{0}, by / 2, by - 1}) {
        if (quotient * by > most - rest) continue;
        EXPECT_EQ(divisor.quotient(quotient * by + rest), quotient) << by << " and " << rest;
      }
    EXPECT_EQ(divisor.quotient(most), most / by) << by;
  }
}

TEST(CudaIndexSpace, NumbersElementsInTheOrderOfTheLoops) {
  IndexSpace<2> space;
  space.add(3, {{100, 1}});
  space.add(1, {{7, 7}});
  space.add(5, {{10, 0}});
  space.add(2, {{-1, 4}});
  ASSERT_EQ(space.count(), 30);
  std::int64_t number = 0;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j)
      for (int k = 0; k < 2; ++k) {
        const auto places = space.places(number++);
        EXPECT_EQ(places.of[0], 100 * i + 10 * j - k);
        EXPECT_EQ(places.of[1], i + 4 * k);
      }
  EXPECT_EQ(IndexSpace<1>().count(), 1);
  EXPECT_EQ(IndexSpace<1>().places(0).of[0], 0);
}

}  // namespace
}  // namespace troupe::cuda

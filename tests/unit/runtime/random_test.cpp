#include "runtime/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <utility>

namespace troupe {
namespace {

using Numbers = std::array<std::uint32_t, 4>;

// Known answers of Random123 1.14.0 (tests/kat_vectors), philox4x32 with 10 rounds.
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Numbers{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Numbers{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Numbers{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomKey, PutsEachOfItsFieldsIntoTheCounterOrTheKey) {
  const RandomKey key{.seed = 0x299f31d0a4093822u,
                      .step = 0x03707344,
                      .micro_batch = 0x13198a2e,
                      .operation = 0x85a308d3};
  EXPECT_EQ(key.block(0x243f6a88), (Numbers{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomKey, GivesOtherNumbersWhereAnyFieldDiffers) {
  const RandomKey base{.seed = 1, .step = 2, .micro_batch = 3, .operation = 4};
  RandomKey seed = base, high_seed = base, step = base, micro_batch = base, operation = base;
  ++seed.seed;
  high_seed.seed += std::uint64_t{1} << 32;
  ++step.step;
  ++micro_batch.micro_batch;
  ++operation.operation;
  std::set<Numbers> all{base.block(5), base.block(6)};
  for (const RandomKey& key : {seed, high_seed, step, micro_batch, operation})
    all.insert(key.block(5));
  EXPECT_EQ(all.size(), 7u);
}

TEST(OperationId, IsFnv1aOfThePath) {
  // Test vectors of the authors, http://www.isthe.com/chongo/src/fnv/test_fnv.c
  EXPECT_EQ(operation_id(""), 0x811c9dc5u);
  EXPECT_EQ(operation_id("a"), 0xe40c292cu);
  EXPECT_EQ(operation_id("foobar"), 0xbf9cf968u);
  EXPECT_NE(operation_id("block1.dropout"), operation_id("block2.dropout"));
}

TEST(NormalNumbers, AreBoxMullersOfTheTwoPairs) {
  constexpr std::uint32_t half = 0x80000000u, quarter = 0x40000000u;
  const auto numbers = normal_numbers({half - 1, quarter, quarter - 1, half});
  const double radius = std::sqrt(2 * std::numbers::ln2);
  EXPECT_NEAR(numbers[0], 0.0, 1e-15);
  EXPECT_NEAR(numbers[1], radius, 1e-15);
  EXPECT_NEAR(numbers[2], -radius * std::numbers::sqrt2, 1e-15);
  EXPECT_NEAR(numbers[3], 0.0, 1e-15);
}

TEST(NormalNumbers, AreFiniteForAllBits) {
  for (const std::uint32_t bits : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
    for (const double number : normal_numbers({bits, bits, bits, ~bits})) {
      EXPECT_TRUE(std::isfinite(number));
      EXPECT_LE(std::abs(number), 6.7);  // sqrt(64 ln 2)
    }
}

TEST(UniformFloat, StaysBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xff), 0.0f);
  EXPECT_EQ(uniform_float(0x80000000), 0.5f);
  EXPECT_EQ(uniform_float(0xffffffff), 1.0f - 0x1p-24f);
}

TEST(UniformFloat, IsEvenlySpreadOverTheNumbersOfAKey) {
  const RandomKey key{.seed = 1};
  double sum = 0, squares = 0;
  constexpr int blocks = 25000;
  for (std::uint32_t block = 0; block < blocks; ++block)
    for (std::uint32_t number : key.block(block)) {
      const double u = uniform_float(number);
      sum += u;
      squares += u * u;
    }
  EXPECT_NEAR(sum / (4 * blocks), 0.5, 0.005);          // five standard errors
  EXPECT_NEAR(squares / (4 * blocks), 1.0 / 3, 0.005);  // likewise
}

}  // namespace
}  // namespace troupe

#include "runtime/error.h"
#include "tests/unit/ops/norm_kernels.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

const RandomKey key{.seed = 0x123456789abcdef0u, .step = 7, .micro_batch = 3, .operation = 99};

/// The definition in KernelTable::dropout, element by element.
std::vector<float> factors(std::int64_t count, float p) {
  std::vector<float> result;
  for (std::int64_t e = 0; e < count; ++e) {
    const auto numbers = key.block(static_cast<std::uint32_t>(e / 4));
    const float uniform = uniform_float(numbers[static_cast<std::size_t>(e % 4)]);
    result.push_back(uniform < p ? 0.0f : 1.0f / (1.0f - p));
  }
  return result;
}

class VectorDropout : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(EveryLayout, VectorDropout, testing::ValuesIn(images_and_rows()));

TEST_P(VectorDropout, DropsExactlyTheElementsOfTheDefinition) {
  const std::int64_t count = GetParam().shape.element_count();
  const Tensor x = tensor_of(GetParam().shape, GetParam().layout,
                             std::vector<float>(static_cast<std::size_t>(count), 1.0f));
  for (float p : {0.01f, 0.5f, 0.9f}) {
    const Tensor y = on_any_threads([&](const Stream& s) { return table().dropout(s, x, p, key); });
    ASSERT_EQ(values_of(y), factors(count, p)) << "p = " << p;
  }
}

TEST_P(VectorDropout, AfterBatchNormDropsTheSameElements) {
  const Case& c = GetParam();
  const std::int64_t count = c.shape.element_count(), channels = c.shape[1];
  const Tensor x = random_tensor(c, 1, 5.0f);
  const Tensor weight = vector_of(random_values(channels, 2, 1.0f));
  const Tensor bias = vector_of(random_values(channels, 3, 1.0f));
  const ChannelMoments moments = moments_by(table().channel_moments, {}, x);
  const Tensor plain = table().batch_norm({}, x, weight, bias, moments, 1e-5, {.relu = true});
  const Tensor z = on_any_threads([&](const Stream& s) {
    return table().batch_norm(s, x, weight, bias, moments, 1e-5,
                              {.relu = true, .dropout = 0.25f, .random = key});
  });
  const std::vector<float> before = values_of(plain), after = values_of(z);
  const std::vector<float> factor = factors(count, 0.25f);
  for (std::size_t e = 0; e < after.size(); ++e) ASSERT_EQ(after[e], before[e] * factor[e]) << e;
}

TEST(VectorDropoutEdges, ProbabilityZeroChangesNothing) {
  const Tensor x = random_tensor({Layout::nhwc, {2, 5, 3, 3}}, 1);
  expect_same_bits(table().dropout({}, x, 0.0f, key), x);
}

TEST(VectorDropoutEdges, TheSmallestAndLargestProbabilitiesFollowTheDefinition) {
  const Tensor x = vector_of(std::vector<float>(4096, 1.0f));
  for (float p : {0x1p-24f, 0x1p-26f, 1.0f - 0x1p-24f})
    EXPECT_EQ(values_of(table().dropout({}, x, p, key)), factors(4096, p)) << p;
}

TEST(VectorDropoutEdges, RefusesWhatIsNoProbability) {
  const Tensor x = Tensor::zeros({4});
  EXPECT_THROW(table().dropout({}, x, -0.1f, key), Error);
  EXPECT_THROW(table().dropout({}, x, 1.0f, key), Error);
  EXPECT_THROW(table().dropout({}, x, std::nanf(""), key), Error);
}

}  // namespace
}  // namespace troupe

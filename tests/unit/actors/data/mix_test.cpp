#include "actors/data/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "actors/data/batch_maker.h"
#include "actors/data/synthetic.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using testing::HasSubstr;

/// Images [4, 2, 6, 5] whose elements tell their sample: 100, 200, 300 and 400.
Tensor images() {
  Tensor result = Tensor::empty(Shape{4, 2, 6, 5}, DType::f32, Device::cpu());
  for (std::int64_t e = 0; e < result.element_count(); ++e)
    result.data<float>()[e] = static_cast<float>(100 * (e / 60 + 1));
  return result;
}

MessageKey key_of(std::uint32_t step, std::uint32_t micro_batch = 0) {
  return {step, Purpose::train, micro_batch};
}

TEST(Mix, DrawsSharesFromABetaDistribution) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    constexpr int count = 4000;
    for (std::uint32_t step = 0; step < count; ++step) {
      Tensor two = Tensor::zeros({2, 1}, DType::f32);
      const double share = mix({.mixup_alpha = alpha}, 1, key_of(step), two);
      ASSERT_TRUE(share >= 0 && share <= 1) << share;
      sum += share - 0.5;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / count, 0, 0.02) << alpha;
    EXPECT_NEAR(squares / count, variance, 0.05 * variance) << alpha;
  }
}

TEST(Mix, UpIsASumOfEachSampleAndTheOneBefore) {
  Tensor mixed = images();
  const double share = mix({.mixup_alpha = 0.4}, 1, key_of(3), mixed);
  const float* first = mixed.data<float>();
  EXPECT_FLOAT_EQ(first[0], static_cast<float>(share * 100 + (1 - share) * 400));
  EXPECT_FLOAT_EQ(first[60], static_cast<float>(share * 200 + (1 - share) * 100));
  EXPECT_FLOAT_EQ(first[239], static_cast<float>(share * 400 + (1 - share) * 300));
}

TEST(Mix, CutShowsARectangleOfTheSampleBefore) {
  std::set<double> shares;
  for (std::uint32_t step = 0; step < 50; ++step) {
    Tensor mixed = images();
    const double share = mix({.cutmix_alpha = 1}, 1, key_of(step), mixed);
    shares.insert(share);
    for (std::int64_t i = 0; i < 4; ++i) {
      const float own = static_cast<float>(100 * (i + 1)), partner = i == 0 ? 400 : own - 100;
      for (std::int64_t c = 0; c < 2; ++c) {
        const float* plane = mixed.data<float>() + (i * 2 + c) * 30;
        EXPECT_EQ(std::count(plane, plane + 30, own), std::lround(30 * share));
        EXPECT_EQ(std::count(plane, plane + 30, own) + std::count(plane, plane + 30, partner), 30);
      }
    }
  }
  EXPECT_GE(shares.size(), 5u);
}

TEST(Mix, IsAFunctionOfSeedStepAndMicroBatch) {
  const auto share = [](std::uint64_t seed, const MessageKey& key) {
    Tensor mixed = images();
    return mix({.mixup_alpha = 1, .cutmix_alpha = 1}, seed, key, mixed);
  };
  EXPECT_EQ(share(1, key_of(2, 3)), share(1, key_of(2, 3)));
  EXPECT_NE(share(1, key_of(2, 3)), share(2, key_of(2, 3)));
  EXPECT_NE(share(1, key_of(2, 3)), share(1, key_of(3, 3)));
  EXPECT_NE(share(1, key_of(2, 3)), share(1, key_of(2, 2)));
}

TEST(Mix, LeavesASingleSampleAsItIs) {
  Tensor one = Tensor::from<float>({1, 2}, std::vector<float>{3, 4});
  EXPECT_EQ(mix({.mixup_alpha = 1}, 1, key_of(0), one), 1);
  EXPECT_EQ(one.data<float>()[1], 4);
}

TEST(Mix, GivesTheTargetsOfThePartnersInTrainingOnly) {
  const Dataset data = open_dataset(Synthetic{.shape = {1, 4, 4}, .count = 12});
  const MicroBatchSamples wanted{.header = {.key = key_of(1)}, .samples = {5, 1, 0}};
  const Batch mixed = BatchMaker(data, Split::train, {}, {.mixup_alpha = 1}).make(wanted);
  const auto own = mixed.targets.elements<std::int64_t>();
  EXPECT_THAT(mixed.partners.elements<std::int64_t>(),
              testing::ElementsAre(own[2], own[0], own[1]));
  EXPECT_LT(mixed.share, 1);
  EXPECT_FALSE(BatchMaker(data, Split::train, {}).make(wanted).partners.defined());
}

TEST(Mix, RefusesWhatItCannotMix) {
  const auto message = [](const auto& act) -> std::string {
    try {
      act();
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message([] { check(MixOptions{.mixup_alpha = -1}, {3}); }),
              HasSubstr("`mixup_alpha` is -1"));
  EXPECT_THAT(message([] { check(MixOptions{.cutmix_alpha = 1}, {3}); }),
              HasSubstr("`cutmix_alpha` is 1, but a sample has the shape [3]"));
  EXPECT_THAT(message([] {
                check_fits(LossFunction{.kind = LossKind::mse}, MixOptions{.mixup_alpha = 1});
              }),
              HasSubstr("`mixup_alpha` is set, but `loss` is mse"));
}

}  // namespace
}  // namespace troupe

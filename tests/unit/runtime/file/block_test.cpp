#include "runtime/file/block.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace troupe {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) { return {tensor.raw(), tensor.bytes()}; }

void expect_unpacks_to(std::span<const std::byte> stored, std::span<const std::byte> raw) {
  BlockScratch scratch;
  std::vector<std::byte> back(raw.size());
  ASSERT_TRUE(unpack_block(stored, sizeof(float), back, scratch));
  EXPECT_TRUE(std::equal(back.begin(), back.end(), raw.begin()));
}

TEST(Block, IsStoredAsItIsWhereItWouldNotShrink) {
  BlockScratch scratch;
  const Tensor noise = test::random_tensor({1000}, DType::u8, 1);
  const auto raw = bytes_of(noise);
  EXPECT_EQ(pack_block(raw, 1, scratch).data(), raw.data());
  const Tensor zeros = Tensor::zeros({1000});
  EXPECT_LT(pack_block(bytes_of(zeros), 4, scratch).size(), 100u);
}

TEST(Block, IsNotPackedWhereItsSampleShrinksByLessThanATenth) {
  BlockScratch scratch;
  const Tensor weights = test::normal_tensor({1 << 17}, 1);
  const auto raw = bytes_of(weights);
  const auto stored = pack_block(raw, sizeof(float), scratch);
  EXPECT_EQ(stored.data(), raw.data());
  EXPECT_EQ(stored.size(), raw.size());
  expect_unpacks_to(stored, raw);
  // So short a block is packed at once, as all were in checkpoints of earlier programs.
  const auto few = raw.first(1 << 15);
  const auto packed = pack_block(few, sizeof(float), scratch);
  EXPECT_LT(packed.size(), few.size());
  expect_unpacks_to(packed, few);
}

TEST(Block, IsPackedWhereOnlyAPartOfItShrinks) {
  for (std::int64_t elements : {1 << 14, 100'003, 1 << 17})
    for (bool zeros_first : {true, false}) {
      const Tensor tensor = test::normal_tensor({elements}, 2);
      const auto begin = zeros_first ? 0 : elements / 2;
      std::fill_n(tensor.data<float>() + begin, elements / 2, 0.0f);
      const auto raw = bytes_of(tensor);
      BlockScratch scratch;
      const auto packed = pack_block(raw, sizeof(float), scratch);
      EXPECT_LT(packed.size(), raw.size() * 6 / 10) << elements;
      expect_unpacks_to(packed, raw);
    }
}

}  // namespace
}  // namespace troupe

#include "runtime/file/digest.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include "runtime/file/checkpoint.h"
#include "runtime/file/safetensors.h"
#include "support.h"

namespace troupe {
namespace {

using test::TemporaryFolder;
using test::tensor_of;

std::vector<NamedTensor> weights() {
  return {{"fc.weight", tensor_of<float>({2, 1}, {1.5f, -2.0f})},
          {"bn.num_batches_tracked", tensor_of<std::int64_t>({}, {7})},
          {"optimizer.momentum.fc.weight", tensor_of<float>({2, 1}, {1, 2})}};
}

TEST(Digest, IsTheSha256OfTheEncodingInItsHeader) {
  const std::string encoded(
      "\x16\0\0\0\0\0\0\0bn.num_batches_tracked\3\0\0\0\0\0\0\0i64\0\0\0\0\0\0\0\0"
      "\7\0\0\0\0\0\0\0"
      "\x9\0\0\0\0\0\0\0fc.weight\3\0\0\0\0\0\0\0f32\2\0\0\0\0\0\0\0"
      "\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\xc0\x3f\0\0\0\xc0",
      30 + 11 + 8 + 8 + 17 + 11 + 8 + 16 + 8);
  unsigned char bytes[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size(), bytes);
  std::string expected;
  for (unsigned char byte : bytes) expected += fmt::format("{:02x}", byte);
  EXPECT_EQ(digest(weights()), expected);
}

TEST(Digest, DependsOnNamesTypesShapesAndBytesOnly) {
  const std::string first = digest(weights());
  std::vector<NamedTensor> changed = weights();
  std::reverse(changed.begin(), changed.end());
  EXPECT_EQ(digest(changed), first);
  changed = weights();
  changed[2].tensor.data<float>()[0] = 5;  // the optimizer's
  EXPECT_EQ(digest(changed), first);
  changed = weights();
  changed[0].tensor.data<float>()[0] = 5;
  EXPECT_NE(digest(changed), first);
  changed = weights();
  changed[0].name = "fc.weigh";
  EXPECT_NE(digest(changed), first);
  changed = weights();
  changed[0].tensor = changed[0].tensor.reshape({1, 2});
  EXPECT_NE(digest(changed), first);
  changed = weights();
  changed[0].tensor = Tensor::view(changed[0].tensor.storage(), 0, {2, 1}, DType::i32);
  EXPECT_NE(digest(changed), first);
}

TEST(Digest, RefusesTwoTensorsOfOneName) {
  const Tensor tensor = Tensor::zeros({1});
  EXPECT_THROW(digest({{"a", tensor}, {"a", tensor}}), Error);
}

TEST(Digest, IsTheSameForEveryCutAndForTheExport) {
  TemporaryFolder folder;
  const std::vector<NamedTensor> all = weights();
  const std::string expected = digest(all);
  const std::vector<std::vector<ShardContent>> cuts{
      {{0, all}},
      {{0, {all[0]}}, {1, {all[1], all[2]}}},
      {{0, {}}, {1, {all[1]}}, {2, {all[2], all[0]}}}};
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const auto out = folder / std::to_string(i);
    const auto path = write_checkpoint(out / "checkpoints", Manifest{}, cuts[i]).value();
    EXPECT_EQ(digest_of(path), expected);
    EXPECT_EQ(digest_of(out), expected);
  }
  ASSERT_TRUE(write_safetensors(folder / "w", {all[0], all[1]}));
  EXPECT_EQ(digest_of(folder / "w"), expected);
}

}  // namespace
}  // namespace troupe

#include "runtime/file/chunked_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

TEST(ChunkedArray, KeepsWhatFitsAndReadsTheRestAgain) {
  int reads = 0;
  const auto read = [&](const ChunkedArray::Place& first) {
    ++reads;
    std::vector<float> values(4);
    std::iota(values.begin(), values.end(), static_cast<float>(first[0]));
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const ChunkedLayout layout{.shape = {12}, .dtype = DType::f32, .chunk = {4}};
  const auto read_all = [](const ChunkedArray& array) {
    for (int row = 0; row < 12; ++row) {
      float value = -1;
      array.read_row(row, std::as_writable_bytes(std::span(&value, 1)));
      EXPECT_EQ(value, static_cast<float>(row));
    }
  };
  const ChunkedArray all(layout, read, std::size_t{3} * 300);
  read_all(all);
  read_all(all);
  EXPECT_EQ(reads, 3);
  const ChunkedArray most(layout, read, 48);  // of their elements, but not of their entries
  read_all(most);
  read_all(most);
  EXPECT_EQ(reads, 3 + 6);
  const ChunkedArray one(layout, read, 1);
  read_all(one);
  read_all(one);
  EXPECT_EQ(reads, 3 + 6 + 6);
}

TEST(ChunkedArray, LimitsTheSizeOfAChunk) {
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_THAT(chunk_sizes(Sizes{1 << 20, 256}, DType::u8),
              testing::Optional(testing::ElementsAre(1 << 20, 256)));
  EXPECT_FALSE(chunk_sizes(Sizes{1 << 20, 257}, DType::u8));
  EXPECT_FALSE(chunk_sizes(Sizes{1 << 20, 256}, DType::i16));
  EXPECT_FALSE(chunk_sizes(Sizes{1, 0}, DType::u8));
  const std::uint64_t large = std::uint64_t{1} << 32;
  EXPECT_FALSE(chunk_sizes(Sizes{large, large, 4}, DType::u8));
}

TEST(ChunkedArray, IsNotReadIntoASmallerMemory) {
  const ChunkedLayout layout{
      .shape = {std::int64_t{1} << 50}, .dtype = DType::f32, .chunk = {std::int64_t{1} << 20}};
  const ChunkedArray array(layout, [](const ChunkedArray::Place&) -> std::vector<std::byte> {
    throw std::logic_error("read");
  });
  test::expect_error(ErrorCode::bad_file, {"'x'", "but this host has a memory of"},
                     [&] { (void)array.read_all("reading 'x'"); });
}

}  // namespace
}  // namespace troupe

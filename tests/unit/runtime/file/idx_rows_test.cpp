#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/error.h"
#include "runtime/file/gzip.h"
#include "runtime/file/idx.h"

namespace troupe {
namespace {

using namespace std::string_literals;

/// An IDX file of u8 [3, 2] with the elements 1 to 6, and what follows.
class IdxRows : public testing::Test {
 protected:
  IdxRows() { write(""); }
  ~IdxRows() override { std::filesystem::remove(path_); }
  void write(const std::string& more) const {
    std::ofstream(path_, std::ios::binary)
        << "\0\0\x08\x02\0\0\0\x03\0\0\0\x02\1\2\3\4\5\6"s << more;
  }
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / ("troupe_idx_rows" + std::to_string(::getpid()));
};

TEST_F(IdxRows, TellsTheShapeWithoutTheElements) {
  EXPECT_EQ(read_idx_shape(path_), (Shape{3, 2}));
}

TEST_F(IdxRows, ReadsTheFirstOnes) {
  const Tensor two = read_idx_rows(path_, 2);
  EXPECT_EQ(two.shape(), (Shape{2, 2}));
  for (std::uint8_t i = 0; i < 4; ++i) EXPECT_EQ(two.data<std::uint8_t>()[i], i + 1);
  EXPECT_EQ(read_idx_rows(path_, 0).element_count(), 0);
}

TEST_F(IdxRows, ChecksTheEndOnlyWhereAllAreRead) {
  write("more");
  EXPECT_NO_THROW(read_idx_rows(path_, 2));
  EXPECT_THROW(read_idx_rows(path_, 3), Error);
}

TEST_F(IdxRows, AreNotMoreThanTheFileHas) {
  EXPECT_THROW(read_idx_rows(path_, 4), Error);
  EXPECT_THROW(read_idx_rows(path_, -1), Error);
}

TEST_F(IdxRows, StayOutOfTheCachingAllocator) {
  const auto before = CachingAllocator::of({}).counters().in_use_bytes;
  const Tensor rows = read_idx_rows(path_, 3);
  EXPECT_EQ(CachingAllocator::of({}).counters().in_use_bytes, before);
}

TEST(UnpackGzip, LeavesWhatIsNotGzipToTheReader) {
  std::array<std::byte, 8> out{};
  EXPECT_FALSE(unpack_gzip({}, out));
  EXPECT_FALSE(unpack_gzip(std::as_bytes(std::span("plainly not gzip")), out));
}

}  // namespace
}  // namespace troupe

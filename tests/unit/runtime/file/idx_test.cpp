#include "runtime/file/idx.h"

#include <zlib.h>

#include <array>
#include <cstdint>

#include "runtime/file/file.h"
#include "support.h"

namespace troupe {
namespace {

using test::expect_error;

std::string idx_header(unsigned type, const std::vector<std::uint32_t>& dims) {
  std::string text{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (std::uint32_t dim : dims)
    for (int shift : {24, 16, 8, 0}) text += static_cast<char>(dim >> shift & 0xff);
  return text;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Tensor parse(const std::string& text) { return parse_idx(as_bytes(text), "some.idx"); }

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  expect_error(ErrorCode::bad_file, parts, [&] { parse(text); });
}

const std::string small = idx_header(8, {2, 3}) + std::string("\1\2\3\4\5\6");

TEST(IdxReader, ReadsPlainAndPackedFilesAlike) {
  for (const std::string& text : {small, gzip(small)}) {
    const Tensor tensor = parse(text);
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    EXPECT_EQ(tensor.dtype(), DType::u8);
    EXPECT_EQ(tensor.elements<std::uint8_t>()[5], 6);
  }
}

TEST(IdxReader, ReadsGzipOfSeveralMembers) {
  const Tensor tensor = parse(gzip(small.substr(0, 7)) + gzip(small.substr(7)));
  EXPECT_EQ(tensor.elements<std::uint8_t>()[5], 6);
}

TEST(IdxReader, ReadsAnEmptyTensor) {
  EXPECT_EQ(parse(idx_header(8, {0, 28, 28})).element_count(), 0);
}

TEST(IdxReader, ReadsTheFilesOfFashionMnist) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const Tensor images = read_idx(folder / "t10k-images-idx3-ubyte.gz");
  const Tensor labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(images.shape(), (Shape{10000, 28, 28}));
  ASSERT_EQ(labels.shape(), (Shape{10000}));
  std::array<int, 10> counts{};
  for (std::uint8_t label : labels.elements<std::uint8_t>()) ++counts.at(label);
  EXPECT_THAT(counts, testing::Each(1000));
}

TEST(IdxReader, RefusesAFileThatEndsAnywhereTooEarly) {
  for (std::size_t length = 0; length < small.size(); ++length)
    expect_refused(small.substr(0, length), {"some.idx"});
  const std::string packed = gzip(small);
  for (std::size_t length = 0; length < packed.size(); ++length)
    expect_refused(packed.substr(0, length), {"some.idx"});
}

TEST(IdxReader, RefusesBytesAfterTheData) {
  expect_refused(small + "x", {"1 bytes follow"});
  expect_refused(gzip(small + "x"), {"more data than its header states"});
  expect_refused(gzip(small) + "junk", {"4 bytes after the end"});
}

TEST(IdxReader, NeverGivesOtherDataForAFlippedBitOfAPackedFile) {
  // Some bits carry nothing (gzip's time stamp, the padding behind the last block).
  const std::string packed = gzip(small);
  const Tensor expected = parse(small);
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    std::string damaged = packed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    try {
      EXPECT_TRUE(test::same(parse(damaged), expected)) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(4 * packed.size()));
}

TEST(IdxReader, RefusesAbsurdHeadersWithoutTakingMemory) {
  const std::uint32_t huge = 0xffffffff;
  expect_refused(idx_header(8, {1u << 30, 1u << 30}), {"some.idx", "too large"});
  expect_refused(idx_header(8, {huge, huge, huge}), {"too large"});
  expect_refused(idx_header(8, {1u << 30, 1u << 20}), {"states [1073741824, 1048576]"});
  expect_refused(gzip(idx_header(8, {1u << 30, 1u << 20})), {"states", "at most"});
  expect_refused(idx_header(8, std::vector<std::uint32_t>(7, 1)), {"7 axes"});
}

TEST(IdxReader, UnpacksNoMoreOfABombThanItsHeaderStates) {
  // NOLINTNEXTLINE(bugprone-string-constructor): a bomb is large
  expect_refused(gzip(idx_header(8, {16}) + std::string(50'000'000, '\0')),
                 {"more data than its header states"});
}

TEST(IdxReader, RefusesOtherKindsOfFiles) {
  expect_refused("PK\3\4 a zip file", {"504b0304", "give an IDX file"});
  expect_refused(idx_header(0x0d, {1}) + "1234", {"type 0x0d", "convert"});
  expect_refused(idx_header(0x07, {1}) + "1", {"00000701"});
}

TEST(IdxReader, NamesAMissingFile) {
  expect_error(ErrorCode::io, {"/nowhere/train"}, [] { read_idx("/nowhere/train"); });
}

}  // namespace
}  // namespace troupe

#include "runtime/file/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "support.h"

namespace troupe {
namespace {

using test::expect_error;
using test::read_text;
using test::same;
using test::TemporaryFolder;
using test::tensor_of;

const std::filesystem::path golden =
    std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/golden/safetensors.safetensors";

/// The tensors of make_safetensors.py, in the order in which the Python library writes them.
std::vector<NamedTensor> golden_tensors() {
  Tensor half = Tensor::empty({3}, DType::f16, Device::cpu());
  half.data<Float16>()[0].bits = 0x0000;
  half.data<Float16>()[1].bits = 0x3c00;
  half.data<Float16>()[2].bits = 0x4000;
  Tensor flags = Tensor::empty({3}, DType::boolean, Device::cpu());
  flags.data<bool>()[0] = flags.data<bool>()[2] = true;
  flags.data<bool>()[1] = false;
  return {{"bn.num_batches_tracked", tensor_of<std::int64_t>({}, {7})},
          {"double", tensor_of<double>({1, 2}, {0.5, 1.5})},
          {"empty", Tensor::empty({0, 4}, DType::f32, Device::cpu())},
          {"fc.bias", tensor_of<float>({2}, {0, 1})},
          {"fc.weight", tensor_of<float>({2, 3}, {-1, -0.75f, -0.5f, -0.25f, 0, 0.25f})},
          {"signed", tensor_of<std::int32_t>({3}, {-1, 0, 1})},
          {"half", half},
          {"größe", tensor_of<std::uint16_t>({1}, {0})},
          {"bytes", tensor_of<std::uint8_t>({5}, {0, 1, 2, 3, 4})},
          {"flags", flags}};
}

std::string file_of(const std::string& header, const std::string& data = {}) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

Safetensors parse(const std::string& text) { return parse_safetensors(as_bytes(text), "w.st"); }

/// Both ways to read: from memory, and a file tensor by tensor.
void expect_refused(const std::string& text, const std::vector<std::string>& parts,
                    ErrorCode code = ErrorCode::bad_file) {
  expect_error(code, parts, [&] { parse(text); });
  const TemporaryFolder folder;
  std::ofstream(folder / "w.st", std::ios::binary) << text;
  expect_error(code, parts, [&] {
    const SafetensorsFile file = SafetensorsFile::open(folder / "w.st");
    for (const TensorInfo& tensor : file.tensors()) file.read(tensor.name);
  });
}

/// A file with one tensor "a" of these members and `bytes` of data.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                std::size_t bytes) {
  return file_of(fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype,
                             shape, offsets),
                 std::string(bytes, '\0'));
}

TEST(SafetensorsReader, ReadsWhatThePythonLibraryWrote) {
  const Safetensors file = read_safetensors(golden);
  test::expect_same(file.tensors, golden_tensors());
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(SafetensorsFile, ReadsTensorsOneByOne) {
  const SafetensorsFile file = SafetensorsFile::open(golden);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  std::vector<NamedTensor> read;
  for (const TensorInfo& tensor : file.tensors()) {
    read.push_back({tensor.name, file.read(tensor.name)});
    EXPECT_EQ(read.back().tensor.dtype(), tensor.dtype);
    EXPECT_EQ(read.back().tensor.shape(), tensor.shape);
  }
  test::expect_same(read, golden_tensors());
  expect_error(ErrorCode::bad_file, {"no tensor 'fc.wieght' among its 10"},
               [&] { file.read("fc.wieght"); });
}

TEST(SafetensorsFile, SaysThatAFileWasShortenedMeanwhile) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "w", {{"a", Tensor::zeros({100})}}));
  const SafetensorsFile file = SafetensorsFile::open(folder / "w");
  std::filesystem::resize_file(folder / "w", std::filesystem::file_size(folder / "w") - 4);
  expect_error(ErrorCode::io, {"/w'", "it ends at byte"}, [&] { file.read("a"); });
}

TEST(SafetensorsWriter, RefusesATensorThatIsNotAsAnnounced) {
  TemporaryFolder folder;
  const TensorSource source{{{"a", DType::f32, {2}}},
                            [](const std::string&) { return Tensor::zeros({3}); }};
  EXPECT_THROW(stream_safetensors(folder / "w", source).value(), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, WritesTheBytesThatThePythonLibraryWrites) {
  TemporaryFolder folder;
  std::vector<NamedTensor> tensors = golden_tensors();
  std::reverse(tensors.begin(), tensors.end());
  ASSERT_TRUE(write_safetensors(folder / "w", tensors, {{"format", "pt"}}));
  EXPECT_EQ(read_text(folder / "w"), read_text(golden));
}

TEST(SafetensorsWriter, WritesEveryTypeSoThatItReadsTheSame) {
  TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8, DType::i16,
                      DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64})
    tensors.push_back({"t." + std::string(name_of(dtype)), test::random_tensor({3, 5}, dtype, 1)});
  ASSERT_TRUE(write_safetensors(folder / "w", tensors));
  const Safetensors file = read_safetensors(folder / "w");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const NamedTensor& read : file.tensors) {
    const auto written = std::find_if(tensors.begin(), tensors.end(),
                                      [&](const NamedTensor& t) { return t.name == read.name; });
    ASSERT_NE(written, tensors.end());
    EXPECT_TRUE(same(read.tensor, written->tensor)) << read.name;
  }
}

TEST(SafetensorsWriter, WritesAFileWithoutTensors) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "w", {}));
  EXPECT_TRUE(read_safetensors(folder / "w").tensors.empty());
}

TEST(SafetensorsWriter, RefusesNamesThatAppearTwice) {
  const Tensor tensor = Tensor::zeros({1});
  EXPECT_THROW(write_safetensors("/nowhere/w", {{"a", tensor}, {"a", tensor}}).value(), Error);
  EXPECT_THROW(write_safetensors("/nowhere/w", {{"__metadata__", tensor}}).value(), Error);
  EXPECT_THROW(write_safetensors("/nowhere/w", {{"\xff", tensor}}).value(), Error);
}

TEST(SafetensorsWriter, ReportsAFullDisk) {
  TemporaryFolder folder;
  const WriteHook full = [](const WriteCall& call) {
    return call.kind == WriteCall::Kind::write && call.bytes > 100 ? ENOSPC : 0;
  };
  const Status status = write_safetensors(folder / "w", {{"a", Tensor::zeros({100})}}, {}, full);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what(), testing::HasSubstr("No space left"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsReader, CopiesTensorsThatAreNotAligned) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  for (std::size_t padding = 0; padding < 8; ++padding) {
    const std::string text =
        file_of(header + std::string(padding, ' '), std::string("\0\0\x80\x3f", 4));
    EXPECT_EQ(parse(text).tensors[0].tensor.data<float>()[0], 1.0f);
  }
}

TEST(SafetensorsReader, RefusesAFileThatEndsAnywhereTooEarly) {
  const std::string whole = read_text(golden);
  for (std::size_t length = 0; length < whole.size(); ++length)
    expect_refused(whole.substr(0, length), {"w.st"});
  expect_refused(whole + "x", {"84 of the data, the file has 85"});
}

TEST(SafetensorsReader, RefusesAbsurdHeaderLengths) {
  for (std::uint64_t length :
       {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{100'000'001}})
    expect_refused(std::string(reinterpret_cast<const char*>(&length), 8) + "{}",
                   {"w.st", std::to_string(length), "100000000"});
  expect_refused(std::string("\3\0\0\0\0\0\0\0{}", 10), {"claims 3 bytes", "has 2"});
}

TEST(SafetensorsReader, RefusesHeadersThatAreNotAnObject) {
  expect_refused(file_of(""), {"does not begin with '{'"});
  expect_refused(file_of(" {}"), {"does not begin with '{'"});
  expect_refused(file_of("[]"), {"does not begin with '{'"});
  expect_refused(file_of("{\"a\":"), {"not valid JSON"});
  expect_refused(file_of("{}x"), {"not valid JSON"});
  expect_refused(file_of("{\"\xff\":1}"), {"not valid JSON"});
  expect_refused(file_of("{\"a\":" + std::string(100'000, '[')), {"deeper than"});
  expect_refused(file_of("{\"a\":1}"), {"tensor 'a'", "object"});
}

TEST(SafetensorsReader, RefusesKeysThatAppearTwice) {
  const std::string a = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused(file_of("{" + a + "," + a + "}"), {"'a' appears twice"});
  expect_refused(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                 {"'dtype' appears twice"});
}

TEST(SafetensorsReader, RefusesShapesAndOffsetsThatDisagree) {
  expect_refused(one("F32", "[2]", "[0,4]", 4), {"tensor 'a'", "needs 8 bytes", "[0, 4)"});
  expect_refused(one("F32", "[1]", "[4,0]", 4), {"begin before end"});
  expect_refused(one("F32", "[1]", "[0]", 4), {"two numbers"});
  expect_refused(one("F32", "[1]", "[0,4.0]", 4), {"non-negative integers"});
  expect_refused(one("F32", "[-1]", "[0,4]", 4), {"non-negative integers"});
  expect_refused(one("F32", "[1]", "[0,-4]", 4), {"non-negative integers"});
  expect_refused(one("F32", "{}", "[0,4]", 4), {"must be a list"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"), {"3 are known"});
}

TEST(SafetensorsReader, RefusesSizesThatOverflow) {
  const std::string big = std::to_string(std::uint64_t{1} << 60);
  expect_refused(one("F32", "[" + big + "]", "[0,4]", 4), {"too large"});
  expect_refused(one("F32", "[4294967296,4294967296]", "[0,0]", 0), {"too large"});
  expect_refused(one("F32", "[18446744073709551615]", "[0,4]", 4), {"18446744073709551615"});
  expect_refused(one("U8", "[" + std::to_string(1ull << 50) + "]",
                     "[0," + std::to_string(1ull << 50) + "]", 4),
                 {"1125899906842624", "the file has 4"});
}

TEST(SafetensorsReader, RefusesHolesAndOverlaps) {
  const auto two = [](int begin, int end) {
    return file_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                               R"("b":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}}}})",
                               begin, end),
                   std::string(static_cast<std::size_t>(end), '\0'));
  };
  EXPECT_EQ(parse(two(4, 8)).tensors.size(), 2u);
  expect_refused(two(5, 9), {"'b' begins at byte 5", "ends at 4"});
  expect_refused(two(3, 7), {"'b' begins at byte 3", "ends at 4"});
  expect_refused(one("U8", "[4]", "[1,5]", 5), {"begins at byte 1", "ends at 0"});
}

TEST(SafetensorsReader, NamesTypesThatTroupeHasNot) {
  expect_refused(one("F8_E4M3", "[1]", "[0,1]", 1), {"tensor 'a'", "F8_E4M3", "convert"},
                 ErrorCode::unsupported);
  expect_refused(one("U8", "[1,1,1,1,1,1,1]", "[0,1]", 1), {"7 axes"}, ErrorCode::unsupported);
}

TEST(SafetensorsReader, RefusesBooleansThatAreNeither) {
  expect_refused(file_of(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
                 {"'a' holds 2"});
}

TEST(SafetensorsReader, RefusesMetadataThatIsNotText) {
  expect_refused(file_of(R"({"__metadata__":{"a":1}})"), {"__metadata__.a"});
  expect_refused(file_of(R"({"__metadata__":[]})"), {"__metadata__"});
}

}  // namespace
}  // namespace troupe

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file/torch_file.h"
#include "runtime/file/zip.h"
#include "runtime/file/zip_writer.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using test::expect_error;
using test::random_tensor;

constexpr DType every_dtype[] = {DType::f32, DType::f64, DType::bf16,   DType::f16, DType::i8,
                                 DType::i16, DType::i32, DType::i64,    DType::u8,  DType::u16,
                                 DType::u32, DType::u64, DType::boolean};

class TorchWriter : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "w.pt"; }
  void write(const std::vector<NamedTensor>& tensors) const {
    stream_torch_file(path(), TensorSource::of(tensors)).value();
  }
  test::TemporaryFolder folder_;
};

TEST_F(TorchWriter, WritesWhatIsReadAgain) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : every_dtype) {
    const auto make = [&](const Shape& shape) {
      return dtype == DType::boolean ? Tensor::zeros(shape, dtype) : random_tensor(shape, dtype, 1);
    };
    const std::string name(name_of(dtype));
    tensors.push_back({"b." + name, make({3, 5})});
    tensors.push_back({"a." + name, make({})});
    tensors.push_back({"c." + name, make({0, 2})});
  }
  write(tensors);
  const TorchWeights weights = open_torch_file(path());
  ASSERT_EQ(weights.tensors.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(weights.tensors.tensors[i].name, tensors[i].name) << "the order is kept";
    EXPECT_TRUE(test::same(weights.tensors.read(tensors[i].name), tensors[i].tensor));
  }
}

// Members, alignment and opcodes that torch.load (weights_only, mmap) of PyTorch 2.15 takes.
TEST_F(TorchWriter, HasTheLayoutThatPyTorchLoads) {
  write({{"w", test::tensor_of<float>({2, 1}, {1, 2})}});
  const ZipArchive zip = ZipArchive::open(path());
  std::vector<std::string> names;
  for (const ZipMember& member : zip.members()) {
    names.push_back(member.name);
    EXPECT_TRUE(member.is_stored());
    EXPECT_EQ(member.begin % 64, 0u) << member.name;
  }
  EXPECT_THAT(names, testing::ElementsAre("archive/data.pkl", "archive/.format_version",
                                          "archive/.storage_alignment", "archive/byteorder",
                                          "archive/version", "archive/data/0"));
  const auto text = [&](const char* name) { return zip.content(zip.at(name), 1000).text(); };
  EXPECT_EQ(text("archive/version"), "3\n");
  EXPECT_EQ(text("archive/byteorder"), "little");
  EXPECT_EQ(text("archive/.storage_alignment"), "64");
  const auto number = [](char value) {
    return std::string("\x8a\x08") + value + std::string(7, '\0');
  };
  const auto word = [](const std::string& word) {
    return "X" + std::string(1, static_cast<char>(word.size())) + std::string(3, '\0') + word;
  };
  EXPECT_EQ(text("archive/data.pkl"),
            "\x80\x02"
            "ccollections\nOrderedDict\n)R(" +
                word("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + word("storage") +
                "ctorch\nFloatStorage\n" + word("0") + word("cpu") + number(2) + "tQ" + number(0) +
                "(" + number(2) + number(1) + "t(" + number(1) + number(1) +
                "t\x89"
                "ccollections\nOrderedDict\n)RtRu.");
}

TEST_F(TorchWriter, WritesTheSameBytesUnderAnyName) {
  const std::vector<NamedTensor> tensors = {{"w", test::normal_tensor({10}, 1)}};
  write(tensors);
  stream_torch_file(folder_ / "other.pth", TensorSource::of(tensors)).value();
  EXPECT_EQ(test::read_text(path()), test::read_text(folder_ / "other.pth"));
}

TEST_F(TorchWriter, WritesNoTensors) {
  write({});
  expect_error(ErrorCode::bad_file, {"no dictionary of tensors"}, [&] { open_torch_file(path()); });
}

TEST_F(TorchWriter, RefusesRepeatedNamesAndOtherTensors) {
  TensorSource source = TensorSource::of({{"a", Tensor::zeros({2})}});
  source.tensors.push_back(source.tensors[0]);
  EXPECT_THROW((void)stream_torch_file(path(), source), Error);
  source.tensors.pop_back();
  source.read = [](const std::string&) { return Tensor::zeros({3}); };
  EXPECT_THROW((void)stream_torch_file(path(), source), Error);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(TorchWriter, ReturnsTheErrorOfAFullDisk) {
  int calls = 0;
  const WriteHook full = [&](const WriteCall& call) {
    return call.kind == WriteCall::Kind::write && ++calls == 5 ? ENOSPC : 0;
  };
  const Status status =
      stream_torch_file(path(), TensorSource::of({{"a", Tensor::zeros({2})}}), full);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what(), testing::HasSubstr("free space"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// The archive begins behind a hole of the file.
TEST_F(TorchWriter, WritesPlacesOf64BitsBehind4GiB) {
  constexpr std::uint64_t begin = std::uint64_t{1} << 32;
  const std::string name = folder_ / "large.zip";
  {
    Result<OutputFile> file = OutputFile::create(name);
    ZipWriter zip(file.value(), begin);
    zip.add("a", as_bytes("one")).value();
    zip.add("b", as_bytes("two")).value();
    zip.finish().value();
  }
  const ZipArchive zip = ZipArchive::open(name);
  EXPECT_EQ(zip.at("a").header_begin, begin);
  EXPECT_EQ(zip.at("b").begin % 64, 0u);
  EXPECT_EQ(zip.content(zip.at("a"), 10).text(), "one");
  EXPECT_EQ(zip.content(zip.at("b"), 10).text(), "two");
}

}  // namespace
}  // namespace troupe

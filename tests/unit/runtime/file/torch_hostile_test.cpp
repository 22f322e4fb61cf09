// Files that no torch.save has written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file/file.h"
#include "runtime/file/torch_file.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/torch_text.h"

namespace troupe {
namespace {

using test::expect_error;
using test::MadeMember;
using test::pickled;
using test::pickled_dict;
using test::PickledTensor;
using test::torch_file_of;
using testing::ElementsAre;

TorchWeights parse(const std::string& text) { return parse_torch_file(as_bytes(text), "w.pt"); }

void expect_refused(const std::string& text, const std::vector<std::string>& parts,
                    ErrorCode code = ErrorCode::bad_file) {
  expect_error(code, parts, [&] {
    const TorchWeights weights = parse(text);
    for (const TensorInfo& tensor : weights.tensors.tensors) weights.tensors.read(tensor.name);
  });
}
void expect_refused(const PickledTensor& tensor, const std::vector<std::string>& parts,
                    ErrorCode code = ErrorCode::bad_file) {
  expect_refused(torch_file_of(pickled_dict({{"w", tensor.text()}})), parts, code);
}

TEST(HostileTorchFile, IsReadIfItIsNone) {
  const std::string text = torch_file_of(pickled_dict({{"w", PickledTensor{}.text()}}));
  EXPECT_THAT(parse(text).tensors.read("w").elements<float>(), ElementsAre(0.5f, 1.5f));
}

TEST(HostileTorchFile, RunsNoCode) {
  const test::TemporaryFolder folder;
  const std::string call =
      "cos\nsystem\n(" + pickled("touch '" + (folder / "x").string() + "'") + "tR";
  const std::string text = torch_file_of(
      pickled_dict({{"a", call}, {"w", PickledTensor{}.text()}, {"b", "(ios\nsystem\n"}}));
  EXPECT_EQ(parse(text).tensors.tensors.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  expect_refused(torch_file_of(call), {"made by os.system"});
  PickledTensor tensor;
  tensor.storage = "os\nsystem";
  expect_refused(tensor, {"tensor 'w'", "its elements are system"}, ErrorCode::unsupported);
}

/// Each one is as large as the file.
TEST(HostileTorchFile, RefusesManyTransposedViewsOfOneStorage) {
  PickledTensor view{.key = "1", .count = 512L * 512, .shape = {512, 512}, .strides = {1, 512}};
  const MadeMember storage{"f/data/1", std::string(std::size_t{512} * 512 * 4, '\0')};
  const auto file_with = [&](int views, std::size_t padding = 0) {
    std::vector<std::pair<std::string, std::string>> items{{std::string(padding, 'p'), "N"}};
    for (int i = 0; i < views; ++i) items.emplace_back("w" + std::to_string(i), view.text());
    return torch_file_of(pickled_dict(items), {storage});
  };
  EXPECT_EQ(parse(file_with(200)).tensors.tensors.size(), 200u);
  expect_error(ErrorCode::bad_file,
               {"its 300 tensors are views of the same memory", "16 times", "contiguous()"},
               [&] { parse(file_with(300)); });
  view.strides = {512, 1};  // which needs no copy where the storage is aligned
  int read = 0;
  for (std::size_t padding = 0; padding < 4; ++padding) try {
      read += parse(file_with(300, padding)).tensors.tensors.size() == 300 ? 1 : 0;
    } catch (const Error&) {
    }
  EXPECT_EQ(read, 1);
}

TEST(HostileTorchFile, RefusesStoragesThatAreNotThere) {
  PickledTensor tensor;
  tensor.key = "1";
  expect_refused(tensor, {"has no f/data/1"});
  tensor.key = "../data.pkl";
  expect_refused(tensor, {"has no f/data/../data.pkl"});
}

TEST(HostileTorchFile, RefusesElementsBehindTheStorage) {
  PickledTensor tensor;
  tensor.count = 3;
  expect_refused(tensor, {"it has 8 bytes, but the storage of a tensor 12"});
  tensor.count = std::int64_t{1} << 62;
  expect_refused(tensor, {"its storage has"});
  tensor = {};
  tensor.offset = 1;
  expect_refused(tensor, {"exceeds its storage of 8 bytes"});
  tensor = {};
  tensor.strides = {2};
  expect_refused(tensor, {"exceeds its storage of 8 bytes"});
  tensor.strides = {std::numeric_limits<std::int64_t>::max()};
  expect_refused(tensor, {"exceeds its storage"});
  tensor.shape = {std::int64_t{1} << 40, std::int64_t{1} << 10};
  tensor.strides = {std::int64_t{1} << 62, 1};
  expect_refused(tensor, {"exceeds its storage"});
}

TEST(HostileTorchFile, RefusesNegativeAndMissingNumbers) {
  PickledTensor tensor;
  tensor.strides = {-1};
  expect_refused(tensor, {"its strides is not a whole number"});
  tensor.strides = {};
  expect_refused(tensor, {"its shape has 1 axes, but its strides 0"});
  tensor = {};
  tensor.offset = -1;
  expect_refused(tensor, {"its offset"});
  tensor = {};
  tensor.shape = {-2};
  expect_refused(tensor, {"its shape"});
  tensor.shape = {1, 1, 1, 1, 1, 1, 1};
  expect_refused(tensor, {"7 axes, more than 6"}, ErrorCode::unsupported);
}

TEST(HostileTorchFile, RefusesRepeatedElementsThatExceedTheFile) {
  PickledTensor tensor;
  tensor.shape = {std::int64_t{1} << 40, 2};
  tensor.strides = {0, 1};
  expect_refused(tensor, {"bytes, more than"});
}

TEST(HostileTorchFile, TakesAnyStrideOfAnAxisOfOneElement) {
  PickledTensor tensor;
  tensor.shape = {1, 2, 1};
  tensor.strides = {std::numeric_limits<std::int64_t>::max(), 1, 99};
  const std::string text = torch_file_of(pickled_dict({{"w", tensor.text()}}));
  EXPECT_THAT(parse(text).tensors.read("w").elements<float>(), ElementsAre(0.5f, 1.5f));
}

TEST(HostileTorchFile, RefusesBooleansThatAreNeither) {
  PickledTensor tensor{.storage = "torch\nBoolStorage", .count = 8, .shape = {8}};
  const std::string with_weights =
      torch_file_of(pickled_dict({{"a", PickledTensor{}.text()}, {"w", tensor.text()}}));
  expect_refused(with_weights, {"tensor 'w'", "63 where 0 or 1"});
}

TEST(HostileTorchFile, ReadsDictionariesThatHoldThemselves) {
  // {"module": itself, "w": …}, and a chain of dictionaries of which each has the next one twice.
  const std::string cycle =
      "}q\1(" + pickled("module") + "h\1" + pickled("w") + PickledTensor{}.text() + "u";
  EXPECT_EQ(parse(torch_file_of(cycle)).tensors.tensors.size(), 1u);
  std::string chain = pickled_dict({{"w", PickledTensor{}.text()}});
  for (int i = 0; i < 1000; ++i)
    chain.append(
        "q\1"
        "}(" +
        pickled("a") + "h\1" + pickled("b") +
        "h\1"
        "u");
  EXPECT_EQ(parse(torch_file_of(chain)).tensors.tensors.size(), 1u);
}

TEST(HostileTorchFile, RefusesParametersThatWrapThemselves) {
  // An object whose arguments are a list that then takes the object.
  const std::string cycle = "ctorch._utils\n_rebuild_parameter\n]q\1Rq\2h\1h\2a00h\2";
  expect_refused(
      torch_file_of("}(" + pickled("w") + cycle + pickled("v") + PickledTensor{}.text() + "u"),
      {"it is not a PyTorch tensor"});
}

TEST(HostileTorchFile, RefusesListsThatManyDictionariesCopy) {
  // 1,000 pairs, given to 100,000 dictionaries: 200 MB of pairs by 500 KB.
  std::string text = "](";
  for (int i = 0; i < 1000; ++i) text += "K\1K\2\x86";
  text +=
      "eq\1"
      "0ccollections\nOrderedDict\nq\2"
      "0";
  for (int i = 0; i < 100'000; ++i) text += "h\2h\1\x85R0";
  expect_refused(torch_file_of(text + "N"), {"its dictionaries exceed the file"});
}

TEST(HostileTorchFile, RefusesNamesThatAreThereTwice) {
  expect_refused(
      torch_file_of(pickled_dict({{"w", PickledTensor{}.text()}, {"w", PickledTensor{}.text()}})),
      {"tensor 'w'", "twice"});
}

TEST(HostileTorchFile, RefusesOtherByteOrders) {
  expect_refused(
      torch_file_of(pickled_dict({{"w", PickledTensor{}.text()}}), {{"f/byteorder", "big"}}),
      {"byte order is 'big'"}, ErrorCode::unsupported);
}

TEST(HostileTorchFile, UnpacksDeflatedStorages) {
  const std::string pickle = "\x80\x02" + pickled_dict({{"w", PickledTensor{}.text()}}) + ".";
  const std::string elements("\0\0\0\x3f\0\0\xc0\x3f", 8);
  const std::string text =
      test::zip_of({{"f/data.pkl", pickle, true}, {"f/data/0", elements, true}});
  EXPECT_THAT(parse(text).tensors.read("w").elements<float>(), ElementsAre(0.5f, 1.5f));
}

TEST(HostileTorchFile, RefusesStoragesThatTheirPackedBytesCannotGive) {
  PickledTensor tensor{.count = std::int64_t{1} << 38, .shape = {std::int64_t{1} << 38}};
  const std::string pickle = "\x80\x02" + pickled_dict({{"w", tensor.text()}}) + ".";
  expect_refused(test::zip_of({{"f/data.pkl", pickle},
                               {.name = "f/data/0",
                                .content = std::string(1000, '\0'),
                                .deflated = true,
                                .size = std::int64_t{1} << 40}}),
                 {"f/data/0"});
}

TEST(HostileTorchFile, RefusesWhatHoldsNoWeights) {
  expect_refused(torch_file_of("N"), {"no dictionary"});
  expect_refused(torch_file_of(pickled_dict({{"a", "N"}})), {"no dictionary of tensors"});
  expect_refused(torch_file_of("]q\1h\1a"), {"no dictionary"});
  expect_refused(test::zip_of({{"a.txt", "text"}}), {"none that torch.save has written"});
}

TEST(HostileTorchFile, GivesWeightsOrAnErrorForAnyWrongByteAndAnyEnd) {
  const std::string path = TROUPE_SOURCE_DIR "/tests/golden/torch/views.pt";
  const std::string text = test::read_text(path);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    for (const std::string& wrong : {changed, text.substr(0, i)}) try {
        const TorchWeights weights = parse(wrong);
        for (const TensorInfo& tensor : weights.tensors.tensors)
          EXPECT_EQ(weights.tensors.read(tensor.name).shape(), tensor.shape);
      } catch (const Error&) {
      }
  }
}

}  // namespace
}  // namespace troupe

// Files that PyTorch has written: tests/golden/make_torch_files.py.
#include "runtime/file/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TROUPE_SOURCE_DIR "/tests/golden/torch") / name;
}

std::vector<std::string> names_of(const TorchWeights& weights) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : weights.tensors.tensors) names.push_back(tensor.name);
  return names;
}

/// Each tensor is as its source announces it.
Tensor read(const TorchWeights& weights, const std::string& name) {
  Tensor tensor = weights.tensors.read(name);
  for (const TensorInfo& info : weights.tensors.tensors)
    if (info.name == name) {
      EXPECT_EQ(tensor.shape(), info.shape) << name;
      EXPECT_EQ(tensor.dtype(), info.dtype) << name;
    }
  return tensor;
}

void expect_module(const TorchWeights& weights, const std::string& prefix = "") {
  ASSERT_THAT(names_of(weights),
              ElementsAre(prefix + "fc.weight", prefix + "fc.bias", prefix + "bn.weight",
                          prefix + "bn.bias", prefix + "bn.running_mean", prefix + "bn.running_var",
                          prefix + "bn.num_batches_tracked"));
  EXPECT_EQ(read(weights, prefix + "fc.weight").shape(), (Shape{2, 3}));
  EXPECT_THAT(read(weights, prefix + "fc.weight").elements<float>(),
              ElementsAre(0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f));
  EXPECT_THAT(read(weights, prefix + "bn.bias").elements<float>(), ElementsAre(0.5f, 1.5f));
  EXPECT_THAT(read(weights, prefix + "bn.num_batches_tracked").elements<std::int64_t>(),
              ElementsAre(0));
}

TEST(TorchFile, HoldsAStateDict) {
  const TorchWeights weights = open_torch_file(golden("state_dict.pt"));
  expect_module(weights);
  EXPECT_EQ(weights.part, "");
  EXPECT_THAT(weights.others, ElementsAre());
}

TEST(TorchFile, HoldsWeightsBesideWhatATrainingScriptSaves) {
  const TorchWeights weights = open_torch_file(golden("training.pt"));
  expect_module(weights);
  EXPECT_EQ(weights.part, "model_state_dict");
  EXPECT_THAT(weights.others, ElementsAre("epoch", "optimizer_state_dict"));
}

TEST(TorchFile, HoldsScalarsOfNumpyAndTheStateOfAGenerator) {
  const TorchWeights weights = open_torch_file(golden("parallel.pth"));
  expect_module(weights, "module.");
  EXPECT_EQ(weights.part, "model");
  EXPECT_THAT(weights.others, ElementsAre("args", "acc", "rng"));
}

TEST(TorchFile, HoldsWhatLightningSaves) {
  const TorchWeights weights = open_torch_file(golden("lightning.ckpt"));
  expect_module(weights);
  EXPECT_EQ(weights.part, "state_dict");
  EXPECT_EQ(weights.others.size(), 8u);
}

TEST(TorchFile, NeedsNoChecksums) { expect_module(open_torch_file(golden("no_checksums.pt"))); }

TEST(TorchFile, HasEveryElementType) {
  const TorchWeights weights = open_torch_file(golden("dtypes.pt"));
  EXPECT_EQ(names_of(weights).size(), 13u);
  EXPECT_THAT(read(weights, "float32").elements<float>(), ElementsAre(0.5f, 1.5f, 2.5f, 3.5f));
  EXPECT_THAT(read(weights, "float64").elements<double>(), ElementsAre(0.5, 1.5, 2.5, 3.5));
  EXPECT_EQ(read(weights, "float16").elements<Float16>()[1].bits, 0x3e00);
  EXPECT_EQ(read(weights, "bfloat16").elements<BFloat16>()[1].bits, 0x3fc0);
  EXPECT_THAT(read(weights, "int64").elements<std::int64_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "int32").elements<std::int32_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "int16").elements<std::int16_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "int8").elements<std::int8_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "uint8").elements<std::uint8_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "uint16").elements<std::uint16_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "uint32").elements<std::uint32_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "uint64").elements<std::uint64_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(weights, "bool").elements<bool>(), ElementsAre(false, true, false, true));
}

TEST(TorchFile, HasViewsOfSharedStorages) {
  const TorchWeights weights = open_torch_file(golden("views.pt"));
  const auto element = [](int row, int column) {
    return static_cast<float>(6 * row + column) + 0.5f;
  };
  const auto transposed = read(weights, "transposed");
  ASSERT_EQ(transposed.shape(), (Shape{6, 4}));
  for (int i = 0; i < 24; ++i)
    EXPECT_EQ(transposed.elements<float>()[static_cast<std::size_t>(i)], element(i % 4, i / 4))
        << i;
  const auto rows = read(weights, "rows");
  ASSERT_EQ(rows.shape(), (Shape{2, 6}));
  EXPECT_EQ(rows.elements<float>()[7], element(2, 1));
  EXPECT_EQ(rows.raw(), read(weights, "whole").raw() + 24) << "it is no copy";
  const auto columns = read(weights, "columns");
  ASSERT_EQ(columns.shape(), (Shape{4, 3}));
  EXPECT_EQ(columns.elements<float>()[5], element(1, 5));
  EXPECT_THAT(read(weights, "scalar").elements<float>(), ElementsAre(element(2, 3)));
  EXPECT_THAT(read(weights, "expanded").elements<float>(),
              ElementsAre(0.5f, 1.5f, 0.5f, 1.5f, 0.5f, 1.5f));
  EXPECT_EQ(read(weights, "empty").shape(), (Shape{0, 3}));
  EXPECT_THAT(read(weights, "parameter").elements<float>(), ElementsAre(0.5f, 1.5f, 2.5f));
  const auto image = read(weights, "channels_last");
  ASSERT_EQ(image.shape(), (Shape{2, 3, 2, 2}));
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(image.elements<float>()[i], static_cast<float>(i) + 0.5f);
}

TEST(TorchFile, OutlivesItsName) {
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(golden("state_dict.pt"), folder / "w.pt");
  const Tensor tensor = open_torch_file(folder / "w.pt").tensors.read("fc.bias");
  std::filesystem::remove(folder / "w.pt");
  EXPECT_THAT(tensor.elements<float>(), ElementsAre(0.5f, 1.5f));
}

TEST(TorchFile, ListsDictionariesThatFitEqually) {
  expect_error(ErrorCode::bad_file,
               {"several", "generator, discriminator", "several.pt#generator'"},
               [] { open_torch_file(golden("several.pt")); });
}

TEST(TorchFile, HoldsOneDictionaryUnderSeveralKeys) {
  const auto open = [](const char* name, const char* part) {
    TorchWeights weights = open_torch_file(golden(name), part);
    expect_module(weights);
    return weights;
  };
  EXPECT_EQ(open("same.pt", "").part, "last");
  EXPECT_THAT(open("same.pt", "").others, ElementsAre("best (weights)", "epoch"));
  EXPECT_EQ(open("same.pt", "best").part, "best");
  EXPECT_THAT(open("same.pt", "best").others, ElementsAre("last (weights)", "epoch"));
  EXPECT_EQ(open("nested.pt", "").part, "model");
  EXPECT_EQ(open("nested.pt", "model").part, "model");
  EXPECT_EQ(open("nested.pt", "best").part, "best.model");
  EXPECT_EQ(open("nested.pt", "best.model").part, "best.model");
  expect_error(ErrorCode::bad_file, {"it has some under last, best"},
               [] { open_torch_file(golden("same.pt"), "ema"); });
}

TEST(TorchFile, OpensThePartWhoseNamesHaveAPrefix) {
  const TorchWeights weights = open_torch_file(golden("state_dict.pt"), "fc.");
  EXPECT_THAT(names_of(weights), ElementsAre("weight", "bias"));
  EXPECT_THAT(read(weights, "bias").elements<float>(), ElementsAre(0.5f, 1.5f));
  EXPECT_EQ(weights.part, "fc.");
  expect_module(open_torch_file(golden("parallel.pth"), "module."));
  EXPECT_EQ(open_torch_file(golden("parallel.pth"), "module.").part, "model, module.");
  EXPECT_THAT(names_of(open_distributed_checkpoint(golden("distributed"), "fc.")),
              UnorderedElementsAre("weight", "bias"));
  expect_error(ErrorCode::bad_file, {"no name of its tensors begins with 'conv.'"},
               [] { open_torch_file(golden("state_dict.pt"), "conv."); });
}

TEST(TorchFile, OpensThePartThatItsPathNames) {
  const TorchPath named = torch_path(golden("several.pt").string() + "#discriminator");
  EXPECT_EQ(named.path, golden("several.pt"));
  EXPECT_EQ(open_torch_file(named.path, named.part).part, "discriminator");
  const test::TemporaryFolder folder;
  test::write_text(folder / "w#1.pt", "");
  EXPECT_EQ(torch_path(folder / "w#1.pt").path, folder / "w#1.pt") << "a file of that name";
}

TEST(TorchFile, RefusesOtherFilesWithTheLineThatConvertsThem) {
  expect_error(ErrorCode::bad_file, {"from PyTorch before 1.6", "torch.save(torch.load(file"},
               [] { open_torch_file(golden("legacy.pt")); });
  expect_error(ErrorCode::bad_file, {"TorchScript", "torch.jit.load(file"},
               [] { open_torch_file(golden("script.pt")); });
  expect_error(ErrorCode::bad_file, {"torch.nn.modules.container.Sequential", "weights_only=False"},
               [] { open_torch_file(golden("module.pt")); });
  expect_error(ErrorCode::bad_file, {"a single tensor", "torch.save(net.state_dict()"},
               [] { open_torch_file(golden("tensor.pt")); });
  expect_error(ErrorCode::bad_file, {"NumPy arrays", "arrays are data: set `Dataset::name` to npz"},
               [] { open_torch_file(golden("../arrays/stored.npz")); });
}

TEST(TorchFile, RefusesTensorsThatAreNotDense) {
  expect_error(ErrorCode::unsupported, {"tensor 'w'", "is sparse", "tensor.to_dense()"},
               [] { open_torch_file(golden("sparse.pt")); });
  expect_error(ErrorCode::unsupported, {"tensor 'w'", "is complex", "delete it"},
               [] { open_torch_file(golden("complex.pt")); });
}

TEST(DistributedCheckpoint, HoldsAStateDict) {
  ASSERT_TRUE(is_distributed_checkpoint(golden("distributed")));
  const TorchWeights weights = open_distributed_checkpoint(golden("distributed"));
  expect_module(weights);
  EXPECT_EQ(weights.part, "model");
  EXPECT_THAT(weights.others, UnorderedElementsAre("optimizer", "epoch"));
}

TEST(DistributedCheckpoint, PutsPartsTogether) {
  const TorchWeights weights = open_distributed_checkpoint(golden("sharded"));
  const Tensor tensor = read(weights, "w");
  ASSERT_EQ(tensor.shape(), (Shape{5, 3}));
  for (std::size_t i = 0; i < 15; ++i)
    EXPECT_EQ(tensor.elements<float>()[i], static_cast<float>(i) + 0.5f) << i;
}

/// As of a convolution whose input channels are divided.
TEST(DistributedCheckpoint, PutsPartsOfAMiddleAxisTogether) {
  const TorchWeights weights = open_distributed_checkpoint(golden("sharded_channels"));
  const Tensor tensor = read(weights, "w");
  ASSERT_EQ(tensor.shape(), (Shape{2, 5, 3}));
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_EQ(tensor.elements<float>()[i], static_cast<float>(i) + 0.5f) << i;
}

/// The second part is at row 3 of 5. At row 2 or 0 it covers rows of the first, and row 4 lacks.
TEST(DistributedCheckpoint, RefusesPartsThatOverlap) {
  const std::string text = test::read_text(golden("sharded") / ".metadata");
  for (const char row : {2, 0}) {
    const test::TemporaryFolder folder;
    std::filesystem::copy(golden("sharded"), folder / "c");
    std::string changed = text;
    const std::string before("K\3K\0\x86", 5);
    for (std::size_t at = changed.find(before); at != changed.npos; at = changed.find(before, at))
      changed[at + 1] = row;
    ASSERT_NE(changed, text);
    test::write_text(folder / "c" / ".metadata", changed);
    expect_error(ErrorCode::bad_file, {row == 2 ? "its parts overlap" : "part"},
                 [&] { (void)open_distributed_checkpoint(folder / "c").tensors.read("w"); });
  }
}

/// The second part is in the second file.
TEST(DistributedCheckpoint, RefusesPartsOfTheSameBytes) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(golden("sharded"), folder / "c");
  std::string changed = test::read_text(golden("sharded") / ".metadata");
  const std::size_t at = changed.find("__1_0.distcp");
  ASSERT_NE(at, changed.npos);
  changed[at + 2] = '0';
  test::write_text(folder / "c" / ".metadata", changed);
  expect_error(ErrorCode::bad_file, {"more bytes than its files, which have 1583"},
               [&] { open_distributed_checkpoint(folder / "c"); });
}

TEST(DistributedCheckpoint, RefusesOneWithoutAllOfItsFiles) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(golden("sharded"), folder / "c");
  std::filesystem::remove(folder / "c/__1_0.distcp");
  expect_error(ErrorCode::io, {"__1_0.distcp"}, [&] { open_distributed_checkpoint(folder / "c"); });
}

TEST(DistributedCheckpoint, GivesWeightsOrAnErrorForAnyWrongByte) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(golden("sharded"), folder / "c");
  for (const char* name : {".metadata", "__0_0.distcp"}) {
    const std::string text = test::read_text(golden("sharded") / name);
    for (std::size_t i = 0; i < text.size(); i += 5) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
      test::write_text(folder / "c" / name, changed);
      try {
        const TorchWeights weights = open_distributed_checkpoint(folder / "c");
        for (const TensorInfo& tensor : weights.tensors.tensors)
          EXPECT_EQ(weights.tensors.read(tensor.name).shape(), tensor.shape);
      } catch (const Error&) {
      }
    }
    test::write_text(folder / "c" / name, text);
  }
}

}  // namespace
}  // namespace troupe

#include "actors/data/npy_folder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "actors/data/batch_maker.h"
#include "runtime/error.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using test::npy_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Ten samples of three features for training, each (10 i, 10 i + 1, 10 i + 2), and two for
/// testing.
class NpyArrays : public ::testing::Test {
 protected:
  NpyArrays() {
    std::vector<float> samples;
    std::vector<std::int32_t> classes;
    for (int i = 0; i < 10; ++i) {
      for (int j = 0; j < 3; ++j) samples.push_back(static_cast<float>(10 * i + j));
      classes.push_back(i % 4);
    }
    write("x_train.npy", npy_of<float>("<f4", "(10, 3)", samples));
    write("y_train.npy", npy_of<std::int32_t>("<i4", "(10,)", classes));
    write("x_test.npy", npy_of<float>("<f4", "(2, 3)", {0, 1, 2, 3, 4, 5}));
    write("y_test.npy", npy_of<std::int32_t>("<i4", "(2, 1)", {1, 5}));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void remove(const std::string& name) const { std::filesystem::remove(folder_ / name); }
  Dataset open(const DatasetOptions& options = {}, double test_fraction = 0) const {
    return open_dataset(NpyFolder{.path = folder_.path(), .test_fraction = test_fraction}, options);
  }
  std::string refusal(double test_fraction = 0) const {
    try {
      (void)open({}, test_fraction);
    } catch (const Error& error) {
      return error.message() + " | " + error.remedy();
    }
    return "nothing was refused";
  }
  Batch batch(const Dataset& data, Split split, std::vector<std::uint32_t> rows,
              DType dtype = DType::f32) const {
    return BatchMaker(data, split, {.dtype = dtype}).make({.samples = std::move(rows)});
  }

  test::TemporaryFolder folder_;
};

TEST_F(NpyArrays, AreSamplesAndClasses) {
  const Dataset data = open();
  EXPECT_EQ(data.samples().shape, Shape{3});
  EXPECT_EQ(data.samples().classes, 6) << "the greatest class is among the test targets";
  EXPECT_EQ(data.count(Split::train), 10);
  EXPECT_EQ(data.count(Split::test), 2);
  const Batch made = batch(data, Split::train, {7, 0});
  EXPECT_THAT(made.samples.elements<float>(), ElementsAre(70, 71, 72, 0, 1, 2));
  EXPECT_THAT(made.targets.elements<std::int64_t>(), ElementsAre(3, 0));
}

TEST_F(NpyArrays, TellTheirMemoryOnceThoughSplitsShareIt) {
  constexpr std::size_t train = 10 * (3 * sizeof(float) + sizeof(std::int64_t));
  EXPECT_EQ(open().bytes_in_memory(), train + 2 * (3 * sizeof(float) + sizeof(std::int64_t)));
  remove("x_test.npy");
  remove("y_test.npy");
  EXPECT_EQ(open({}, 0.2).bytes_in_memory(), train);
}

TEST_F(NpyArrays, ReachTheModelInItsPrecision) {
  const Batch made = batch(open(), Split::train, {7}, DType::f64);
  EXPECT_THAT(made.samples.elements<double>(), ElementsAre(70, 71, 72));
  write("x_train.npy", npy_of<double>("<f8", "(10, 3)", std::vector<double>(30, 0.1)));
  write("x_test.npy", npy_of<double>("<f8", "(2, 3)", std::vector<double>(6, 0.1)));
  EXPECT_EQ(batch(open(), Split::test, {1}).samples.elements<float>()[2], 0.1F);
}

TEST_F(NpyArrays, OfBytesAreNormalisedImages) {
  write("x_train.npy",
        npy_of<std::uint8_t>("|u1", "(10, 1, 3)", std::vector<std::uint8_t>(30, 51)));
  write("x_test.npy", npy_of<std::uint8_t>("|u1", "(2, 1, 3)", std::vector<std::uint8_t>(6, 255)));
  const Dataset data = open();
  EXPECT_EQ(data.samples().shape, (Shape{1, 1, 3}));
  EXPECT_FLOAT_EQ(batch(data, Split::train, {3}).samples.elements<float>()[0], 0.2F);
}

TEST_F(NpyArrays, TakeNumbersAsTargets) {
  write("y_train.npy", npy_of<float>("<f4", "(10, 2)", std::vector<float>(20, 0.5F)));
  write("y_test.npy", npy_of<float>("<f4", "(2, 2)", {1, 2, 3, 4}));
  const Dataset data = open();
  EXPECT_EQ(data.samples().target_shape, Shape{2});
  EXPECT_EQ(data.samples().target_dtype, DType::f32);
  EXPECT_EQ(data.samples().classes, 0);
  EXPECT_THAT(batch(data, Split::test, {1}).targets.elements<float>(), ElementsAre(3, 4));
}

TEST_F(NpyArrays, AreLimited) {
  const Dataset data = open({.limit = 4, .test_limit = 1});
  EXPECT_EQ(data.count(Split::train), 4);
  EXPECT_EQ(data.count(Split::test), 1);
}

TEST_F(NpyArrays, HoldOutAShareForTestingByTheSeed) {
  remove("x_test.npy");
  remove("y_test.npy");
  EXPECT_EQ(open().count(Split::test), 0);
  std::map<std::uint64_t, std::set<float>> held_out;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Dataset data = open({.seed = seed}, 0.3);
    EXPECT_EQ(data.count(Split::train), 7);
    EXPECT_EQ(data.count(Split::test), 3);
    std::set<float> all;
    for (const auto& [split, count] : {std::pair{Split::train, 7u}, std::pair{Split::test, 3u}})
      for (std::uint32_t i = 0; i < count; ++i) {
        const Batch one = batch(data, split, {i});
        const float first = one.samples.elements<float>()[0];
        EXPECT_EQ(one.targets.elements<std::int64_t>()[0], static_cast<int>(first) / 10 % 4);
        EXPECT_TRUE(all.insert(first).second) << first << " is twice in the splits";
        if (split == Split::test) held_out[seed].insert(first);
      }
    EXPECT_EQ(all.size(), 10u);
    EXPECT_EQ(batch(open({.seed = seed}, 0.3), Split::test, {0}).samples.elements<float>()[0],
              *held_out[seed].begin())
        << "in the stored order, each time";
  }
  EXPECT_TRUE(held_out[1] != held_out[2] || held_out[2] != held_out[3]);
  EXPECT_THAT(refusal(0.01), HasSubstr("holds out 0 of 10"));
  EXPECT_THAT(refusal(0.99), HasSubstr("holds out 10 of 10"));
}

TEST_F(NpyArrays, RefuseWhatDoesNotFit) {
  EXPECT_THAT(refusal(0.2), HasSubstr("there are test samples"));
  write("y_test.npy", npy_of<std::int32_t>("<i4", "(3,)", {1, 2, 3}));
  EXPECT_THAT(refusal(), HasSubstr("[3] for 2 samples"));
  write("y_test.npy", npy_of<std::int32_t>("<i4", "(2,)", {1, -2}));
  EXPECT_THAT(refusal(), HasSubstr("has the class -2 at 1"));
  write("y_test.npy", npy_of<std::int32_t>("<i4", "(2, 2)", {1, 2, 3, 4}));
  EXPECT_THAT(refusal(), HasSubstr("one class for each sample"));
  write("y_test.npy", npy_of<float>("<f4", "(2,)", {1, 2}));
  EXPECT_THAT(refusal(), HasSubstr("has targets f32 of"));
  write("x_test.npy", npy_of<float>("<f4", "(2, 2)", {1, 2, 3, 4}));
  EXPECT_THAT(refusal(), HasSubstr("has samples f32 of"));
  write("x_test.npy", npy_of<float>("<f4", "(2,)", {1, 2}));
  EXPECT_THAT(refusal(), HasSubstr("has the shape [2]"));
  write("x_test.npy", npy_of<float>("<f4", "(0, 3)", {}));
  EXPECT_THAT(refusal(), HasSubstr("is empty"));
  write("x_test.npy", npy_of<std::uint64_t>("<u8", "(2, 1)", {1, 2}));
  EXPECT_THAT(refusal(), HasSubstr("has elements of u64"));
}

TEST_F(NpyArrays, NameTheFilesThatAreMissing) {
  remove("y_test.npy");
  EXPECT_THAT(refusal(), HasSubstr("y_test.npy does not exist"));
  remove("x_train.npy");
  EXPECT_THAT(refusal(), HasSubstr("x_train.npy does not exist"));
  try {
    (void)open_dataset(NpyFolder{});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.remedy(), HasSubstr("`Dataset::path`"));
  }
}

}  // namespace
}  // namespace troupe

// Arrays of whole numbers (tokens) for an exported model with an embedding, through the command's
// own entry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t samples = 40, tokens = 12;

class TokenTraining : public testing::Test {
 protected:
  TokenTraining() {
    test::write_text(folder_ / "o.yaml", "model: {file: " TROUPE_SOURCE_DIR
                                         "/tests/golden/graphs/tokens.pt2}\n"
                                         "data: {name: npy, path: " +
                                             folder_.path().string() +
                                             ", train_targets: y.npy, test_fraction: 0.2}\n"
                                             "train: {batch_size: 8, epochs: 2, lr: 0.01}\n");
    std::vector<std::int64_t> targets;
    for (std::size_t i = 0; i < samples; ++i) targets.push_back(token(i, 0));
    test::write_text(folder_ / "y.npy", test::npy_of<std::int64_t>("<i8", "(40,)", targets));
    write<std::int64_t>("i8", "<i8");
  }

  static std::int64_t token(std::size_t sample, std::size_t place) {
    return static_cast<std::int64_t>((sample * sample + 3 * place) % 10);
  }
  template <class T>
  void write(const std::string& name, const char* type, T added = 0) const {
    std::vector<T> array;
    for (std::size_t i = 0; i < samples; ++i)
      for (std::size_t t = 0; t < tokens; ++t)
        array.push_back(static_cast<T>(static_cast<T>(token(i, t)) + added));
    test::write_text(folder_ / (name + ".npy"), test::npy_of<T>(type, "(40, 12)", array));
  }
  Ran train(const std::string& array, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"train", (folder_ / "o.yaml").string(),         "-o", out(array),
                                   "-r",    "data.train_samples=" + array + ".npy"};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  }
  std::string out(const std::string& array) const { return (folder_ / ("run_" + array)).string(); }
  std::string digest(const std::string& array) const {
    return run_troupe({"inspect", "--digest", out(array)}).out;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(TokenTraining, GivesTheSameWeightsFromWholeNumbersOfAnySize) {
  write<float>("f4", "<f4");
  write<std::int16_t>("i2", "<i2");
  write<std::uint16_t>("u2", "<u2");
  write<std::int32_t>("i4", "<i4");
  for (const char* array : {"f4", "i2", "u2", "i4", "i8"}) {
    const Ran ran = train(array);
    ASSERT_EQ(ran.code, exit_done) << array << ran.error;
    EXPECT_EQ(digest(array), digest("f4")) << array;
  }
  const Ran evaluated = run_troupe({"eval", out("i8")});
  EXPECT_EQ(evaluated.code, exit_done) << evaluated.error;
  EXPECT_THAT(evaluated.out, HasSubstr("/8"));
}

TEST_F(TokenTraining, IsPlannedByMeasuredCosts) {
  const Ran planned =
      run_troupe({"plan", (folder_ / "o.yaml").string(), "-r", "data.train_samples=i8.npy"});
  EXPECT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(planned.out, HasSubstr("memory bound"));
}

TEST_F(TokenTraining, NamesATokenThatTheEmbeddingLacks) {
  write<std::int64_t>("high", "<i8", 5);
  const Ran ran = train("high");
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, AllOf(HasSubstr("embedding: index 1"), HasSubstr("has 10 rows")));
}

TEST_F(TokenTraining, RefusesWhatNeedsPixelsOrNumbers) {
  EXPECT_THAT(train("i8", {"-r", "data.augment=[flip]"}).error,
              HasSubstr("data.augment is set, but npy has no u8 images"));
  EXPECT_THAT(train("i8", {"-r", "data.mixup_alpha=0.2"}).error,
              HasSubstr("data.mixup_alpha is set, but the samples of npy are indices of i64"));
  EXPECT_THAT(train("i8", {"-r", "model.file=", "-r", "model.name=mlp"}).error,
              HasSubstr("mlp takes numbers, but the samples are indices of i64"));
  EXPECT_THAT(train("i8", {"-r", "data.mean=[0.5]"}).out,
              HasSubstr("only u8 images are normalised, not samples of i64"));
}

}  // namespace
}  // namespace troupe

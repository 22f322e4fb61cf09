// Training on a table of numbers, and what the command says of it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "apps/options/load_options.h"
#include "apps/train/training.h"
#include "ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Table : public ::testing::Test {
 protected:
  Table() {
    std::string rows = "length,width,species\n";
    for (int i = 0; i < 40; ++i)
      rows += fmt::format("{},{},{}\n", i, i % 3, i < 20 ? "setosa" : "virginica");
    write("train.csv", rows);
    write("o.yaml", fmt::format("model: {{name: mlp, widths: [4]}}\n"
                                "data: {{name: csv, path: {}}}\n"
                                "train: {{batch_size: 8, lr: 0.001}}\n",
                                folder_.path().string()));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  Ran train(const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> words = {"train", (folder_ / "o.yaml").string(), "-o",
                                      (folder_ / "out").string()};
    for (const std::string& one : overrides) words.insert(words.end(), {"-r", one});
    return run_troupe(words);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Table, IsDescribedBeforeItsTraining) {
  const Ran ran = train({"data.test_fraction=0.25"});
  ASSERT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("csv: 30 training and 10 test samples, 2 features, target "
                                 "species: 0 setosa, 1 virginica\n"));
  EXPECT_THAT(test::read_text(folder_ / "out" / "options_restart.yaml"),
              HasSubstr("  classes: 2\n"));
}

TEST_F(Table, IsEvaluatedWithAWarningWhereTrainingSamplesAreAmongTheTestSamples) {
  ASSERT_EQ(train({"data.test_fraction=0.25"}).code, exit_done);
  const auto warned = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> words = {"eval", (folder_ / "out").string()};
    for (const std::string& one : overrides) words.insert(words.end(), {"-r", one});
    const Ran ran = run_troupe(words);
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    return ran.error;
  };
  const auto contains = HasSubstr("the test samples contain training samples");
  EXPECT_THAT(
      warned({"data.test_fraction=0.5"}),
      AllOf(HasSubstr("data.test_fraction is 0.5, but the run was trained with 0.25"), contains));
  EXPECT_THAT(warned({"seed=2"}), AllOf(HasSubstr("seed is 2"), contains));
  EXPECT_THAT(warned({}), Not(contains));
  EXPECT_THAT(warned({"data.test_fraction=0.1"}), Not(contains)) << "a part of the test samples";
}

TEST_F(Table, ThatHasChangedIsRefusedForTheSameRunAndToldWhereSamplesAreHeldOut) {
  ASSERT_EQ(train({"data.test_fraction=0.25"}).code, exit_done);
  std::ofstream(folder_ / "train.csv", std::ios::app) << "7,1,setosa\n";
  std::vector<std::string> again = {"train",     (folder_ / "o.yaml").string(),
                                    "-o",        (folder_ / "out").string(),
                                    "--restart", "auto"};
  for (const char* setting : {"data.test_fraction=0.25", "train.epochs=3"})
    again.insert(again.end(), {"-r", setting});
  const Ran refused = run_troupe(again);
  EXPECT_EQ(refused.code, exit_usage);
  EXPECT_THAT(refused.error,
              AllOf(HasSubstr("csv has 31 training and 10 test samples, but 30 and 10 when"),
                    HasSubstr("resume with the same samples")));
  const Ran evaluated = run_troupe({"eval", (folder_ / "out").string()});
  EXPECT_EQ(evaluated.code, exit_done) << evaluated.error;
  EXPECT_THAT(evaluated.error, HasSubstr("but the run had 30 and 10: others are held out"));
  EXPECT_THAT(run_troupe({"eval", (folder_ / "out").string(), "-r", "data.test_limit=4"}).error,
              HasSubstr("others are held out"));
  EXPECT_THAT(run_troupe({"eval", (folder_ / "out").string(), "-r", "data.limit=4"}).error,
              Not(HasSubstr("held out")))
      << "as many test samples as before; the number of the others is not known";
}

TEST_F(Table, IsReadOnceAndHeldOnce) {
  write("test.csv", "length,width,species\n1,2,setosa\n");
  const Options options = parse_options(test::read_text(folder_ / "o.yaml"), "o.yaml");
  for (const char* name : {"train.csv", "test.csv"}) std::filesystem::remove(folder_ / name);
  const Dataset run = pipeline_options(options, {}).data.dataset, again = open_dataset(options);
  EXPECT_EQ(run.count(Split::train), 40);
  EXPECT_EQ(run.stored(Split::train)->samples.raw(), again.stored(Split::train)->samples.raw());
}

// The table can be repaired and the command repeated.
TEST_F(Table, WithoutTestSamplesIsRefusedBeforeThereIsAFolder) {
  EXPECT_THAT(train().error, AllOf(HasSubstr("csv has no test samples"),
                                   HasSubstr("set data.test_fraction to 0.1")));
  EXPECT_THAT(train({"data.test_fraction=0.2", "data.augment=[flip]"}).error,
              HasSubstr("data.augment is set, but csv has no u8 images"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Table, OfWholeNumbersIsToldAsRegression) {
  const auto refused = [&](const std::string& loss) {
    return train({"train.loss=" + loss, "data.target=[length]"}).error;
  };
  std::string rows = "length,width\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{}\n", 1000 * i, i % 3);
  write("train.csv", rows);
  EXPECT_THAT(refused("mse"), AllOf(HasSubstr("read as classes"),
                                    HasSubstr("for regression, set data.targets to numbers")));
  EXPECT_THAT(refused("cross_entropy"),
              HasSubstr("set data.targets to numbers and train.loss to mse"));
}

TEST_F(Table, OfClassesThatReadAsNumbersIsToldHowToReadThem) {
  std::string rows = "length,width\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{}.0\n", i, i % 2);
  write("train.csv", rows);
  const std::vector<std::string> wide = {"data.target=[width]", "data.test_fraction=0.2"};
  EXPECT_THAT(train(wide).error, HasSubstr("of a table set data.targets to classes"));
  EXPECT_EQ(train({wide[0], wide[1], "data.targets=classes"}).code, exit_done);
}

TEST_F(Table, HasATestLossThatIsNotFinite) {
  write("test.csv", "length,width,species\n3e38,3e38,setosa\n-3e38,3e38,virginica\n");
  const Ran ran = train({"model.widths=[256]"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("warning: the test loss is not finite"),
                             HasSubstr("Loss=nan"), Not(HasSubstr("-nan"))));
}

}  // namespace
}  // namespace troupe

// Losses other than cross-entropy from an options file to what the verbs print.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "ran.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Samples x of four numbers; their targets are sums, or whether the sum is above 0.
class Regression : public ::testing::Test {
 protected:
  Regression() {
    for (const auto& [split, count] : {std::pair{"train", 256}, std::pair{"test", 40}}) {
      std::vector<float> x, sums;
      std::vector<std::int64_t> signs;
      for (int i = 0; i < count; ++i) {
        float sum = 0;
        for (int j = 0; j < 4; ++j) {
          x.push_back(static_cast<float>(std::sin(1.0 + 7.3 * i + 2.1 * j)));
          sum += x.back();
        }
        sums.push_back(sum);
        signs.push_back(sum > 0 ? 1 : 0);
      }
      const std::string number = std::to_string(count);
      write(std::string("x_") + split, test::npy_of<float>("<f4", "(" + number + ", 4)", x));
      write(std::string("y_") + split, test::npy_of<float>("<f4", "(" + number + ",)", sums));
      write(std::string("signs_") + split,
            test::npy_of<std::int64_t>("<i8", "(" + number + ",)", signs));
    }
    std::ofstream(folder_ / "o.yaml")
        << "model: {name: mlp, widths: [16], classes: 1}\n"
           "data: {name: npy, path: " +
               folder_.path().string() +
               "}\n"
               "train: {epochs: 12, batch_size: 32, lr: 0.05, loss: mse}\n";
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / (name + ".npy"), std::ios::binary) << text;
  }
  Ran run(std::vector<std::string> words, const std::vector<std::string>& overrides = {}) const {
    words.insert(words.begin() + 1, (folder_ / "o.yaml").string());
    for (const std::string& one : overrides) words.insert(words.end(), {"-r", one});
    return run_troupe(words);
  }
  Ran train(const std::vector<std::string>& overrides = {}) const {
    return run({"train", "-o", (folder_ / "out").string()}, overrides);
  }
  std::string csv() const { return test::read_text(folder_ / "out" / "train.csv"); }

  test::TemporaryFolder folder_;
  const std::vector<std::string> signs_ = {"train.loss=bce", "data.train_targets=signs_train.npy",
                                           "data.test_targets=signs_test.npy"};
};

TEST_F(Regression, TrainsAndReportsNoAccuracy) {
  const Ran ran = train();
  ASSERT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("Epoch 12/12: Time=[0-9.]+s, Loss=0[.]0[0-9]+, Thr"),
                             ContainsRegex("Training complete. Final Loss: 0[.]0[0-9]+\n"),
                             ContainsRegex("test loss 0[.]0[0-9]+ [(]40 samples[)]\n$"),
                             Not(HasSubstr("ccuracy="))));
  EXPECT_THAT(csv(),
              ContainsRegex("\n96,12,[0-9.e-]+,,[0-9.e+]+,[0-9.e-]+,[0-9.]+,[0-9.e-]+,,,40\n$"));
  const Ran evaluated = run_troupe({"eval", (folder_ / "out").string()});
  EXPECT_EQ(evaluated.code, exit_done) << evaluated.error;
  EXPECT_THAT(evaluated.out, AllOf(ContainsRegex("test loss 0[.]0[0-9]+ [(]40 samples[)]\n$"),
                                   Not(HasSubstr("accuracy"))));
}

TEST_F(Regression, ResumesWithTheEvaluationsOfItsFile) {
  ASSERT_EQ(train({"train.steps=48"}).code, exit_done);
  const Ran resumed = run({"train", "-o", (folder_ / "out").string(), "--restart", "auto"},
                          {"checkpoint.keep_best=true", "train.patience=3"});
  EXPECT_EQ(resumed.code, exit_done) << resumed.error;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr("resuming from"), HasSubstr("best checkpoint in"),
                                 Not(HasSubstr("before step"))));
}

TEST_F(Regression, TrainsTwoClassesWithOneOutput) {
  const Ran ran = train(signs_);
  ASSERT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, ContainsRegex("test accuracy (0[.]9|1[.]0)[0-9]+ [(][0-9]+/40[)]\n$"));
}

TEST_F(Regression, IsRefusedBeforeTheRunWhereLossAndTargetsDoNotFit) {
  const auto refused = [&](const std::vector<std::string>& overrides) {
    const Ran planned = run({"plan"}, overrides);
    EXPECT_EQ(planned.error, train(overrides).error);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    return planned.error;
  };
  EXPECT_THAT(refused({"train.loss=cross_entropy"}), HasSubstr("set train.loss to mse"));
  EXPECT_THAT(refused({"model.classes=3"}), HasSubstr("set model.classes to 1"));
  EXPECT_THAT(refused({"data.train_targets=signs_train.npy", "data.test_targets=signs_test.npy"}),
              AllOf(HasSubstr("set train.loss to cross_entropy"),
                    HasSubstr("for regression, give targets of f32")));
  EXPECT_THAT(refused({"train.target_accuracy=0.9"}), HasSubstr("no accuracy"));
  EXPECT_THAT(refused({"train.monitor=test_accuracy", "train.patience=2"}),
              HasSubstr("set train.monitor to test_loss"));
  std::vector<std::string> two = signs_;
  two.emplace_back("model.classes=2");
  EXPECT_THAT(refused(two), HasSubstr("set model.classes to 1"));
  two.emplace_back("train.loss=cross_entropy");
  two.emplace_back("train.class_weights=[1, 2, 3]");
  EXPECT_THAT(refused(two), HasSubstr("3 numbers for 2 outputs"));
}

TEST_F(Regression, NamesATestSampleThatIsNoNumber) {
  std::vector<float> x(160, 0.5f);
  x[30] = NAN;
  write("x_test", test::npy_of<float>("<f4", "(40, 4)", x));
  const Ran ran = train({"train.epochs=3"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.error, HasSubstr("test sample 7 of npy (from 0) has nan at number 3 of 4"));
  EXPECT_THAT(ran.out, HasSubstr("Epoch 3/3"));
}

TEST_F(Regression, NamesATargetOutsideOfBinaryCrossEntropy) {
  EXPECT_THAT(train({"train.loss=bce"}).error,
              AllOf(HasSubstr("outside [0, 1]"), HasSubstr("train.loss")));
}

}  // namespace
}  // namespace troupe

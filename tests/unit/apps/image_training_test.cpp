// An image folder through the command's own entry: with every augmentation the weights depend on
// neither workers, replicas nor interruptions, and a damaged image ends the run with its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/image/golden_images.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

class ImageTraining : public testing::Test {
 protected:
  ImageTraining() {
    for (const std::string split : {"train", "val"})
      for (const auto& image : fs::directory_iterator(test::golden_images)) {
        const std::string name = image.path().filename().string();
        const fs::path kind = folder_ / ("images/" + split) / (name < "h" ? "first" : "second");
        fs::create_directories(kind);
        fs::copy_file(image.path(), kind / name);
      }
    test::write_text(folder_ / "o.yaml",
                     "model: {name: mlp, widths: [4]}\n"
                     "data: {name: image_folder, path: " +
                         (folder_ / "images").string() +
                         ", resize: 18, image_size: 16, color_jitter: [0.4, 0.4, 0.4], augment: "
                         "[random_resized_crop, flip, trivial_augment, vertical_flip, crop, "
                         "auto_augment, color_jitter, rand_augment, auto_augment_cifar10, "
                         "random_erasing], mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, "
                         "0.225]}\n"
                         "train: {batch_size: 4, micro_batches: 2, epochs: 3, lr: 0.01}\n"
                         "checkpoint: {every_steps: 2, keep: 0}\n");
  }
  std::string out(const std::string& name) const { return (folder_ / name).string(); }
  Ran train(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> words{"train", (folder_ / "o.yaml").string(), "-o", out(name)};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  }
  std::string digest(const std::string& name) const {
    return run_troupe({"inspect", "--digest", out(name)}).out;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ImageTraining, GivesTheSameWeightsForAnyWorkersAndReplicasAndWhenResumed) {
  const Ran ran = train("one", {});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_EQ(train("workers", {"-r", "data.workers=3"}).code, exit_done);
  EXPECT_EQ(train("replicas", {"-r", "parallel.data=2"}).code, exit_done);
  EXPECT_EQ(train("resumed", {"-r", "train.steps=4"}).code, exit_done);
  EXPECT_NE(digest("resumed"), digest("one"));
  const Ran resumed = train("resumed", {"--restart", "auto"});
  EXPECT_EQ(resumed.code, exit_done) << resumed.error;
  for (const char* name : {"workers", "replicas", "resumed"})
    EXPECT_EQ(digest(name), digest("one"));
  EXPECT_EQ(train("seed", {"-r", "seed=2"}).code, exit_done);
  EXPECT_NE(digest("seed"), digest("one"));
}

TEST_F(ImageTraining, GivesOtherWeightsForOtherOptionsOfItsOwn) {
  const std::string augment = "data.augment=[color_jitter]";
  EXPECT_EQ(train("one", {"-r", augment}).code, exit_done);
  int run = 0;
  for (const char* option :
       {"data.resize=20", "data.image_size=15", "data.color_jitter=[0.2, 0.4, 0.4]",
        "data.color_jitter=[0.4, 0.4, 0.4, 0.1]"}) {
    const std::string name = "other" + std::to_string(run++);
    EXPECT_EQ(train(name, {"-r", augment, "-r", option}).code, exit_done);
    EXPECT_NE(digest(name), digest("one")) << option << " was read and ignored";
  }
}

TEST_F(ImageTraining, IsEvaluatedFromItsCheckpoint) {
  EXPECT_EQ(train("one", {}).code, exit_done);
  const Ran ran = run_troupe({"eval", out("one")});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, testing::HasSubstr("/15"));
}

TEST_F(ImageTraining, IsEvaluatedWithTheSameScoresAndErrorsByAnyNumberOfWorkers) {
  ASSERT_EQ(train("one", {}).code, exit_done);
  const auto evaluated = [&](const std::string& workers) {
    return run_troupe({"eval", out("one"), "-r", "data.workers=" + workers});
  };
  const std::string scores = evaluated("0").out;
  for (const char* workers : {"1", "2", "4"}) EXPECT_EQ(evaluated(workers).out, scores) << workers;
  test::write_text(folder_ / "images/val/first/grey.jpg", "text");
  const Ran none = evaluated("0");
  EXPECT_THAT(none.error, testing::AllOf(testing::HasSubstr("val/first/grey.jpg"),
                                         testing::HasSubstr("neither a JPEG nor a PNG"),
                                         testing::HasSubstr("remove it from the data set")));
  for (const char* workers : {"1", "2", "4"}) {
    const Ran ran = evaluated(workers);
    EXPECT_EQ(ran.code, none.code) << workers;
    EXPECT_EQ(ran.error, none.error) << workers;
  }
}

TEST_F(ImageTraining, EndsAtADamagedImageAndNamesIt) {
  test::write_text(folder_ / "images/train/first/grey.jpg", "text");
  const Ran ran = train("one", {});
  EXPECT_NE(ran.code, exit_done);
  EXPECT_THAT(ran.error, testing::AllOf(testing::HasSubstr("train/first/grey.jpg"),
                                        testing::HasSubstr("neither a JPEG nor a PNG"),
                                        testing::HasSubstr("remove it from the data set")));
}

TEST_F(ImageTraining, RefusesOptionsThatDoNotFit) {
  const auto refuses = [&](const std::string& option, const std::string& text) {
    const Ran ran = train("refused", {"-r", option});
    EXPECT_NE(ran.code, exit_done);
    EXPECT_THAT(ran.error, testing::HasSubstr(text));
  };
  refuses("data.image_size=32", "data.resize is 18, less than data.image_size 32");
  refuses("data.augment=[flip]", "data.augment has no color_jitter");
  refuses("data.color_jitter=[0.4]", "data.color_jitter is [0.4]");
  refuses("data.augment=[color_jitter, random_resized_crop]", "random_resized_crop after");
  refuses("data.augment=[random_erasing, color_jitter]", "random_erasing before");
  refuses("data.path=/nowhere", "data.path is /nowhere, which does not exist");
  EXPECT_EQ(train("refused", {"-r", "data.path=/nowhere"}).code, exit_usage);
}

}  // namespace
}  // namespace troupe

// Arrays of NumPy and HDF5 files and zarr folders through the command's own entry: the weights
// depend on neither the format, workers nor interruptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tensor/allocator.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

using testing::HasSubstr;

class ArrayTraining : public testing::Test {
 protected:
  ArrayTraining() {
    test::write_text(folder_ / "o.yaml",
                     "model: {name: mlp, widths: [4], classes: 3}\n"
                     "train: {batch_size: 2, micro_batches: 2, epochs: 3, lr: 0.01}\n"
                     "checkpoint: {every_steps: 2, keep: 0}\n");
  }
  std::string out(const std::string& name) const { return (folder_ / name).string(); }
  Ran run(std::vector<std::string> words, const std::string& format, const std::string& file,
          const std::vector<std::string>& more) const {
    words.insert(words.begin() + 1, (folder_ / "o.yaml").string());
    words.insert(words.end(), {"-r", "data.name=" + format, "-r",
                               "data.path=" TROUPE_SOURCE_DIR "/tests/golden/arrays/" + file});
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  }
  Ran train(const std::string& name, const std::string& format, const std::string& file,
            const std::vector<std::string>& more = {}) const {
    return run({"train", "-o", out(name)}, format, file, more);
  }
  std::string digest(const std::string& name) const {
    return run_troupe({"inspect", "--digest", out(name)}).out;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ArrayTraining, GivesTheSameWeightsFromAnyFormatAndWhenResumedWithinAnEpoch) {
  const Ran npy = train("npy", "npy", "");
  ASSERT_EQ(npy.code, exit_done) << npy.error;
  int run = 0;
  for (const auto& [format, file] :
       {std::pair{"npz", "deflated.npz"}, std::pair{"npz", "stored.npz"},
        std::pair{"hdf5", "contiguous.h5"}, std::pair{"hdf5", "packed.h5"},
        std::pair{"zarr", "format_2.zarr"}, std::pair{"zarr", "format_3.zarr"}}) {
    const std::string name = "run" + std::to_string(run++);
    const Ran part = train(name, format, file, {"-r", "train.steps=7"});
    ASSERT_EQ(part.code, exit_done) << part.error;
    EXPECT_NE(digest(name), digest("npy"));
    const Ran rest = train(name, format, file, {"--restart", "auto", "-r", "data.workers=3"});
    EXPECT_EQ(rest.code, exit_done) << rest.error;
    EXPECT_EQ(digest(name), digest("npy")) << file;
    const Ran evaluated = run_troupe({"eval", out(name)});
    EXPECT_EQ(evaluated.code, exit_done) << evaluated.error;
    EXPECT_THAT(evaluated.out, HasSubstr("/2"));
  }
}

TEST_F(ArrayTraining, OfSequencesNamesTheirOwnShapeAndCountsSamples) {
  const auto zeros = [](const std::string& type, const std::string& shape, std::size_t bytes) {
    return test::npy_file(
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }",
        std::string(bytes, '\0'));
  };
  test::write_text(folder_ / "a.npz",
                   test::zip_of({{"x_train.npy", zeros("<f4", "(8, 5, 3)", 4 * 8 * 5 * 3)},
                                 {"y_train.npy", zeros("|u1", "(8,)", 8)},
                                 {"x_test.npy", zeros("<f4", "(2, 5, 3)", 4 * 2 * 5 * 3)},
                                 {"y_test.npy", zeros("|u1", "(2,)", 2)}}));
  const auto train = [&](const std::string& name, const std::string& model) {
    return run_troupe({"train", out("o.yaml"), "-o", out(name), "-r", "data.name=npz", "-r",
                       "data.path=" + out("a.npz"), "-r", model});
  };
  const Ran ran = train("run", "model.name=mlp");
  ASSERT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("8 training and 2 test samples, 1×5×3, "));
  EXPECT_THAT(ran.out, HasSubstr(" samples/s"));
  EXPECT_THAT(ran.out, testing::Not(HasSubstr("img/s")));
}

TEST_F(ArrayTraining, HasOneCopyOfTheArraysInMemoryInEveryVerb) {
  constexpr std::size_t samples = 8192, size = 1024, bytes = samples * size;
  const std::string begin = "{'descr': '|u1', 'fortran_order': False, 'shape': ";
  test::write_text(
      folder_ / "a.npz",
      test::zip_of(
          {{"x_train.npy", test::npy_file(begin + "(8192, 1024), }", std::string(bytes, 1))},
           {"y_train.npy", test::npy_file(begin + "(8192,), }", std::string(samples, 2))}}));
  CachingAllocator& memory = CachingAllocator::of(Device::cpu());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", out("o.yaml"), "-o", out("run"), "-r", "train.steps=2",
                                 "-r", "data.name=npz", "-r", "data.test_fraction=0.1", "-r",
                                 "data.path=" + out("a.npz")},
        {"eval", out("run")}}) {
    memory.reset_peak();
    const Ran ran = run_troupe(words);
    ASSERT_EQ(ran.code, exit_done) << ran.error;
    EXPECT_GE(memory.counters().peak_bytes, bytes) << words[0];
    EXPECT_LT(memory.counters().peak_bytes, bytes * 3 / 2) << words[0];
  }
}

TEST_F(ArrayTraining, IsPlannedFromItsFile) {
  for (const auto& [format, file] :
       {std::pair{"npz", "stored.npz"}, std::pair{"hdf5", "chunked.h5"},
        std::pair{"zarr", "format_3.zarr"}}) {
    const Ran ran = run({"plan"}, format, file, {});
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    const Ran missing = run({"plan"}, format, file, {"-r", "data.train_samples=images"});
    EXPECT_NE(missing.code, exit_done);
    EXPECT_THAT(missing.error, HasSubstr("name its arrays by data.train_samples"));
  }
}

TEST_F(ArrayTraining, IsMeantByOtherNames) {
  for (const char* word : {"h5", "hdf", "HDF5"})
    EXPECT_THAT(run({"plan"}, word, "chunked.h5", {}).error, HasSubstr("did you mean hdf5?"));
}

}  // namespace
}  // namespace troupe

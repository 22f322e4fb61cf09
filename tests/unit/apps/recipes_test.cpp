// Each recipe at its own sizes, for two steps on data in the form in which it is published. Both
// steps have the same samples, so the loss of the second tells what the first has learned.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "runtime/file/checkpoint_folder.h"
#include "tests/unit/actors/data/cifar_text.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

const fs::path recipes = TROUPE_SOURCE_DIR "/recipes";

/// An IDX file of bytes; images are [count, 28, 28].
std::string idx_file(std::size_t count, bool of_images) {
  const auto number = [](std::size_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
    return bytes;
  };
  std::string bytes = number(of_images ? 0x803 : 0x801) + number(count);
  if (of_images) bytes += number(28) + number(28);
  for (std::size_t i = 0; i < count * (of_images ? 28 * 28 : 1); ++i)
    bytes += static_cast<char>(of_images ? i * 7 % 251 : i % 10);
  return bytes;
}

void write_idx(const fs::path& folder) {
  for (const auto& [split, count] : {std::pair("train", 16), std::pair("t10k", 4)})
    for (const bool of_images : {false, true})
      test::write_text(
          folder / fmt::format("{}-{}-ubyte", split, of_images ? "images-idx3" : "labels-idx1"),
          idx_file(static_cast<std::size_t>(count), of_images));
}

void write_images(const fs::path& folder) {
  std::vector<fs::path> photos;
  for (const auto& file : fs::directory_iterator(TROUPE_SOURCE_DIR "/tests/golden/images"))
    if (file.path().extension() == ".jpg") photos.push_back(file.path());
  ASSERT_FALSE(photos.empty());
  for (const char* split : {"train", "val"})
    for (const char* name : {"cat", "dog"}) {
      fs::create_directories(folder / split / name);
      for (int i = 0; i < 2; ++i)
        fs::copy_file(photos[static_cast<std::size_t>(i) % photos.size()],
                      folder / split / name / fmt::format("{}.jpg", i));
    }
}

struct Recipe {
  const char* name;
  void (*write_data)(const fs::path& folder);
  std::vector<std::string> smaller;  ///< few samples, all of which are a batch
};
void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

const std::vector<Recipe> known = {
    {"cifar100_wide_resnet",
     [](const fs::path& folder) { test::cifar_folder(100, true, 2).write(folder); },
     {"train.batch_size=4", "data.limit=4"}},
    {"cifar10_cnn",
     [](const fs::path& folder) { test::cifar_folder(10, true, 2).write(folder); },
     {"train.batch_size=20"}},
    {"cifar10_resnet18",
     [](const fs::path& folder) { test::cifar_folder(10, true, 2).write(folder); },
     {"train.batch_size=4", "data.limit=4"}},
    {"demo", write_idx, {"train.batch_size=16", "train.epochs=6"}},  // its rate begins low
    {"imagenet_resnet50",
     write_images,
     {"train.batch_size=2", "data.limit=2", "train.micro_batches=1"}},
    {"mnist_cnn", write_idx, {"train.batch_size=16"}},
};

/// The third column of train.csv.
std::vector<double> losses_in(const fs::path& csv) {
  std::istringstream lines(test::read_text(csv));
  std::string line, cell;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("step,epoch,loss,")) << line;
  std::vector<double> losses;
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    for (int column = 0; column < 3; ++column) std::getline(cells, cell, ',');
    losses.push_back(std::stod(cell));
  }
  return losses;
}

class Recipes : public testing::TestWithParam<Recipe> {};

TEST_P(Recipes, LearnsFromFilesAsTheyArePublished) {
  const test::TemporaryFolder folder;
  const fs::path data = folder / "data", out = folder / "out";
  fs::create_directories(data);
  GetParam().write_data(data);
  std::vector<std::string> words{"train", (recipes / GetParam().name).string() + ".yaml",
                                 "-o",    out.string(),
                                 "-r",    "data.path=" + data.string(),
                                 "-r",    "train.steps=2"};
  for (const std::string& setting : GetParam().smaller) words.insert(words.end(), {"-r", setting});
  const Ran ran = run_troupe(words);
  ASSERT_EQ(ran.code, exit_done) << ran.error;
  const std::vector<double> losses = losses_in(out / "train.csv");
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_TRUE(std::isfinite(losses[0]) && std::isfinite(losses[1]));
  EXPECT_LT(losses[1], losses[0]);
  EXPECT_EQ(list_checkpoints(out / "checkpoints").back().step, 2);
}

INSTANTIATE_TEST_SUITE_P(Each, Recipes, testing::ValuesIn(known),
                         [](const auto& recipe) { return std::string(recipe.param.name); });

TEST(RecipesFolder, HasNoneThatIsNotTested) {
  std::set<std::string> names, tested;
  for (const auto& file : fs::directory_iterator(recipes)) names.insert(file.path().stem());
  for (const Recipe& recipe : known) tested.insert(recipe.name);
  EXPECT_EQ(names, tested);
}

}  // namespace
}  // namespace troupe

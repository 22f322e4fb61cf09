#include "actors/data/image_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "actors/data/batch_maker.h"
#include "actors/data/image_files.h"
#include "tests/unit/runtime/image/golden_images.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// Three classes; the files of a class in torchvision's order are 0, 1, … of `names`.
class ImageFolderTest : public testing::Test {
 protected:
  ImageFolderTest() {
    for (const char* split : {"train", "val"}) {
      add(fmt_path(split, "b", "photo.png"), "photo.png");
      add(fmt_path(split, "b", "Z.JPEG"), "photo.jpg");
      add(fmt_path(split, "a", "grey.jpg"), "grey.jpg");
      add(fmt_path(split, "a/below", "x.png"), "photo.png");
      add(fmt_path(split, "C", "c.jpg"), "progressive.jpeg");
    }
    test::write_text(folder_ / "train/README.md", "text");
    test::write_text(folder_ / "train/a/.hidden.jpg", "text");
    test::write_text(folder_ / "train/a/labels.txt", "text");
    fs::create_directories(folder_ / "train/.cache");
  }
  static std::string fmt_path(const std::string& split, const std::string& kind,
                              const std::string& name) {
    return split + "/" + kind + "/" + name;
  }
  void add(const std::string& path, const std::string& image) const {
    fs::create_directories((folder_ / path).parent_path());
    fs::copy_file(test::golden_images / image, folder_ / path);
  }
  ImageFolder definition() const {
    return {.path = folder_.path(), .resize = 20, .image_size = 16};
  }
  Dataset open() const { return open_dataset(definition()); }
  /// Of photo.jpg and photo.png, whose shorter side becomes `resize`.
  void expect_bytes_of_torchvision(std::int64_t resize) const {
    ImageFolder resized = definition();
    resized.resize = resize;
    const BatchMaker maker(open_dataset(resized), Split::test, {.std = {1.0 / 255}});
    const Batch batch = maker.make({.samples = {3, 4}});
    const SafetensorsFile expected = test::expected_images();
    const float* pixel = batch.samples.data<float>();
    for (const char* name : {"photo.jpg", "photo.png"})
      for (const int value :
           test::values_of(expected.read(fmt::format("evaluated/{}/{}", resize, name))))
        ASSERT_FLOAT_EQ(*pixel++, static_cast<float>(value)) << name;
  }
  void expect_refused(ErrorCode code, const std::vector<std::string>& parts) const {
    test::expect_error(code, parts, [&] { open(); });
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ImageFolderTest, ListsClassesAndFilesInTheOrderOfTorchvision) {
  const ImageFiles list = list_image_files(folder_ / "train");
  EXPECT_EQ(list.classes, (std::vector<std::string>{"C", "a", "b"}));
  EXPECT_EQ(list.files, (std::vector<std::string>{"C/c.jpg", "a/grey.jpg", "a/below/x.png",
                                                  "b/Z.JPEG", "b/photo.png"}));
  std::vector<std::int64_t> classes;
  for (std::int64_t file = 0; file < 5; ++file) classes.push_back(list.class_of(file));
  EXPECT_EQ(classes, (std::vector<std::int64_t>{0, 1, 1, 2, 2}));
}

TEST_F(ImageFolderTest, EvaluatesTheBytesOfTorchvision) {
  const Dataset data = open();
  EXPECT_EQ(data.samples().shape, (Shape{3, 16, 16}));
  EXPECT_EQ(data.samples().classes, 3);
  EXPECT_EQ(data.count(Split::test), 5);
  expect_bytes_of_torchvision(20);
  const Batch batch = BatchMaker(data, Split::test, {}).make({.samples = {3}});
  EXPECT_EQ(batch.targets.data<std::int64_t>()[0], 2);
}

// 3, 5, 11 and 13 pixels in all: half of them is rounded up to 2 and 6, and down to 2 and 6.
TEST_F(ImageFolderTest, LeavesOutAnOddNumberOfPixelsAroundTheCentreAsTorchvisionDoes) {
  expect_bytes_of_torchvision(19);
  expect_bytes_of_torchvision(21);
}

TEST_F(ImageFolderTest, TakesRandomPartsThatDependOnSeedEpochAndSampleAlone) {
  const TransformOptions options{.augment = {Augment::random_resized_crop, Augment::flip}};
  const BatchMaker maker(open(), Split::train, options);
  const auto pixels = [](const Batch& batch, std::int64_t row) {
    const Tensor sample = batch.samples.narrow(row, 1);
    return std::vector<float>(sample.data<float>(), sample.data<float>() + 3L * 16 * 16);
  };
  const Batch among = maker.make({.epoch = 1, .samples = {4, 0, 2}});
  EXPECT_EQ(pixels(among, 1), pixels(maker.make({.epoch = 1, .samples = {0}}), 0));
  EXPECT_NE(pixels(among, 0), pixels(maker.make({.epoch = 2, .samples = {4}}), 0));
  const BatchMaker test(open(), Split::test, options), plain(open(), Split::test, {});
  EXPECT_EQ(pixels(test.make({.samples = {4}}), 0), pixels(plain.make({.samples = {4}}), 0));
}

TEST_F(ImageFolderTest, TakesTheFolderTestWhereThereIsNoVal) {
  fs::rename(folder_ / "val", folder_ / "test");
  EXPECT_EQ(open().count(Split::test), 5);
  fs::rename(folder_ / "test", folder_ / "other");
  EXPECT_EQ(open().count(Split::test), 0);
  fs::rename(folder_ / "train", folder_ / "val");
  expect_refused(ErrorCode::io, {"train does not exist", "or to one with CLASS/… alone"});
}

/// The classes of all samples of a split.
std::vector<std::int64_t> classes_of(const Dataset& data, Split split) {
  std::vector<std::uint32_t> all(static_cast<std::size_t>(data.count(split)));
  std::iota(all.begin(), all.end(), 0u);
  const Batch batch = BatchMaker(data, split, {}).make({.samples = all});
  const auto classes = batch.targets.elements<std::int64_t>();
  return {classes.begin(), classes.end()};
}

// Of a folder train without val, and of a folder of classes alone; 5 images of the classes 0 1 1
// 2 2.
TEST_F(ImageFolderTest, HoldsOutAShareOfFoldersWithoutTestImages) {
  ImageFolder definition{
      .path = folder_.path(), .resize = 20, .image_size = 16, .test_fraction = 0.4};
  test::expect_error(ErrorCode::bad_options, {"`Dataset::test_fraction` is 0.4", "val"},
                     [&] { open_dataset(definition); });
  fs::remove_all(folder_ / "val");
  for (const char* below : {"", "train"}) {
    definition.path = folder_.path() / below;
    std::set<std::vector<std::int64_t>> held_out;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Dataset data = open_dataset(definition, {.seed = seed});
      std::vector<std::int64_t> all = classes_of(data, Split::train);
      const std::vector<std::int64_t> test = classes_of(data, Split::test);
      EXPECT_EQ(all.size(), 3u);
      EXPECT_EQ(data.samples().classes, 3);
      held_out.insert(test);
      all.insert(all.end(), test.begin(), test.end());
      std::ranges::sort(all);
      EXPECT_EQ(all, (std::vector<std::int64_t>{0, 1, 1, 2, 2}));
      EXPECT_EQ(classes_of(open_dataset(definition, {.seed = seed}), Split::test), test);
    }
    EXPECT_GT(held_out.size(), 2u) << "by the seed";
  }
  definition.test_fraction = 0.05;
  test::expect_error(ErrorCode::bad_options, {"0.05", "holds out 0 of 5 samples"},
                     [&] { open_dataset(definition); });
}

TEST_F(ImageFolderTest, PassesOverFilesBesideItsFolders) {
  fs::remove_all(folder_ / "val");
  test::write_text(folder_ / "test", "text");
  test::write_text(folder_ / "valid", "text");
  EXPECT_EQ(open().count(Split::train), 5);
}

// Otherwise their images would be two classes, or the test images would be left out.
TEST_F(ImageFolderTest, RefusesOtherNamesOfSplits) {
  for (const char* name : {"valid", "Validation", "Test", "VAL"}) {
    fs::rename(folder_ / "val", folder_ / name);
    expect_refused(ErrorCode::bad_file, {name, "is not read under this name", "train and val"});
    fs::rename(folder_ / "train", folder_ / "Training");
    expect_refused(ErrorCode::bad_file, {"is not read under this name"});
    fs::rename(folder_ / "Training", folder_ / "train");
    fs::rename(folder_ / name, folder_ / "val");
  }
}

TEST_F(ImageFolderTest, RefusesASplitThatItWouldNotReadBesideThoseThatItReads) {
  for (const char* name : {"valid", "test_set", "Train2017", "validation images"}) {
    fs::create_directories(folder_ / name);
    expect_refused(ErrorCode::bad_file,
                   {name, "is not read under this name", "move it out of this folder"});
    fs::remove(folder_ / name);
  }
  add("test/a/x.png", "photo.png");  // the second of val and test
  EXPECT_EQ(open().count(Split::test), 5);
}

TEST_F(ImageFolderTest, TakesClassesWhoseNamesBeginAsThoseOfSplits) {
  fs::remove_all(folder_ / "val");
  for (const char* name : {"test_tube", "trainer", "valley", "train_station", "devil"})
    add(fmt::format("classes/{}/x.png", name), "photo.png");
  ImageFolder alone = definition();
  alone.path = folder_ / "classes";
  EXPECT_EQ(open_dataset(alone).samples().classes, 5);
  fs::rename(folder_ / "classes/valley", folder_ / "classes/val2017");
  test::expect_error(ErrorCode::bad_file, {"val2017 is not read under this name"},
                     [&] { open_dataset(alone); });
}

TEST_F(ImageFolderTest, RefusesAFolderAroundTheClasses) {
  fs::remove_all(folder_ / "val");
  fs::rename(folder_ / "train", folder_ / "images");
  expect_refused(ErrorCode::bad_file, {"has one class alone, images", "CLASS"});
}

TEST_F(ImageFolderTest, TakesFewerSamplesFromAllClasses) {
  const Dataset data = open_dataset(definition(), {.limit = 3});
  const Batch batch = BatchMaker(data, Split::train, {}).make({.samples = {0, 1, 2}});
  const auto classes = batch.targets.elements<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(classes.begin(), classes.end()),
            (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(ImageFolderTest, RefusesClassesThatOnlyOneSplitHas) {
  add("val/d/x.png", "photo.png");
  expect_refused(ErrorCode::bad_file, {"the class d is in", "val", "not in"});
  fs::remove_all(folder_ / "val/d");
  fs::remove_all(folder_ / "val/a");
  expect_refused(ErrorCode::bad_file, {"the class a is in", "train"});
}

TEST_F(ImageFolderTest, RefusesEmptyClassesAndOtherFormats) {
  fs::create_directories(folder_ / "train/empty");
  expect_refused(ErrorCode::bad_file, {"train/empty has no"});
  fs::remove_all(folder_ / "train/empty");
  add("train/a/x.webp", "photo.png");
  expect_refused(ErrorCode::bad_file, {"x.webp is neither JPEG nor PNG"});
}

TEST_F(ImageFolderTest, RefusesFoldersThatAreMissingOrHaveNoClasses) {
  test::expect_error(ErrorCode::io, {"image_folder has no `Dataset::path`"},
                     [] { open_dataset(ImageFolder{}); });
  test::expect_error(ErrorCode::io, {"/nowhere does not exist"},
                     [] { open_dataset(ImageFolder{.path = "/nowhere"}); });
  test::expect_error(ErrorCode::io, {"README.md is not a folder"},
                     [&] { open_dataset(ImageFolder{.path = folder_ / "train/README.md"}); });
  test::expect_error(ErrorCode::bad_file, {"no folder of a class"},
                     [&] { list_image_files(folder_ / "train/b"); });
}

TEST_F(ImageFolderTest, RefusesLinksThatLeadBack) {
  fs::create_directories(folder_ / "train/C/below");
  fs::create_directory_symlink("../../b", folder_ / "train/C/below/other");  // no way back: fine
  EXPECT_EQ(open().count(Split::train), 7);
  fs::create_directory_symlink(".", folder_ / "train/a/below/self");
  fs::create_directory_symlink(".", folder_ / "train/a/below/self2");
  expect_refused(ErrorCode::bad_file, {"train/a/below/self", "leads back to", "remove the link"});
  fs::remove(folder_ / "train/a/below/self");
  fs::remove(folder_ / "train/a/below/self2");
  fs::create_directory_symlink("../C", folder_ / "train/b/back");  // C/below/other/back/below/…
  expect_refused(ErrorCode::bad_file, {"leads back to"});
}

TEST_F(ImageFolderTest, RefusesSizesThatDoNotFit) {
  test::expect_error(ErrorCode::bad_options, {"`resize` is 100", "`image_size` 224"},
                     [&] { open_dataset(ImageFolder{.path = folder_.path(), .resize = 100}); });
}

TEST_F(ImageFolderTest, NamesTheFileThatCannotBeDecoded) {
  test::write_text(folder_ / "train/a/grey.jpg", "text");
  test::write_text(folder_ / "train/C/c.jpg", "");
  const std::string whole = test::read_text(test::golden_images / "photo.jpg");
  test::write_text(folder_ / "train/b/Z.JPEG", whole.substr(0, whole.size() / 2));
  const BatchMaker maker(open(), Split::train, {});
  test::expect_error(ErrorCode::bad_file, {"train/C/c.jpg", "empty"},
                     [&] { maker.make({.samples = {0}}); });
  test::expect_error(ErrorCode::bad_file, {"train/a/grey.jpg", "neither"},
                     [&] { maker.make({.samples = {1}}); });
  test::expect_error(ErrorCode::bad_file, {"train/b/Z.JPEG", "cannot be decoded"},
                     [&] { maker.make({.samples = {3}}); });
}

TEST_F(ImageFolderTest, RefusesFilesTooLargeForAnImage) {
  fs::resize_file(folder_ / "train/a/grey.jpg", std::uintmax_t{1} << 40);  // takes no space
  const BatchMaker maker(open(), Split::train, {});
  test::expect_error(ErrorCode::bad_file, {"train/a/grey.jpg", "1099511627776"},
                     [&] { maker.make({.samples = {1}}); });
}

}  // namespace
}  // namespace troupe

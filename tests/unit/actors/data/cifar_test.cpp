#include "actors/data/cifar.h"

#include <fmt/format.h>

#include <cstring>

#include "actors/data/cifar_batch.h"
#include "runtime/file/file.h"
#include "tests/unit/actors/data/cifar_text.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using test::cifar_folder;
using test::expect_error;
using test::write_text;
using testing::HasSubstr;

struct Form {
  int classes;
  bool is_pickle;
};

DatasetSource source_of(int classes, const fs::path& path) {
  if (classes == 10) return Cifar10{path};
  return Cifar100{path};
}

std::string archive_name(const Form& form) {
  return fmt::format("cifar-{}-{}.tar.gz", form.classes, form.is_pickle ? "python" : "binary");
}

void expect_samples(const Tensor& pixels, std::int64_t count, int first) {
  ASSERT_EQ(pixels.shape(), (Shape{count, 3, 32, 32}));
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(std::memcmp(pixels.raw() + i * 3072,
                          test::cifar_image(first + static_cast<int>(i)).data(), 3072),
              0)
        << i;
}

class Cifar : public testing::TestWithParam<Form> {
 protected:
  void expect_whole(const fs::path& path) const {
    SCOPED_TRACE(path);
    const DatasetSource source = source_of(GetParam().classes, path);
    const DatasetSummary summary = source.describe();
    EXPECT_EQ(summary.train, 10);
    EXPECT_EQ(summary.test, 2);
    const Dataset dataset = open_dataset(source);
    for (const SampleSpec& spec : {summary.samples, dataset.samples()}) {
      EXPECT_EQ(spec.shape, (Shape{3, 32, 32}));
      EXPECT_EQ(spec.dtype, DType::u8);
      EXPECT_EQ(spec.classes, GetParam().classes);
    }
    const auto train = dataset.stored(Split::train);
    expect_samples(train->samples, 10, 0);
    expect_samples(dataset.stored(Split::test)->samples, 2, 100);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(train->targets.data<std::int64_t>()[i], i);
  }

  const test::TemporaryFolder folder_;
  const test::CifarFolder content_ = cifar_folder(GetParam().classes, GetParam().is_pickle);
};

TEST_P(Cifar, IsReadFromItsFolderAndTheFolderAboveIt) {
  content_.write(folder_.path());
  expect_whole(folder_ / content_.name);
  expect_whole(folder_.path());
}

TEST_P(Cifar, IsReadFromItsArchiveAndTheFolderThatContainsIt) {
  write_text(folder_ / archive_name(GetParam()), content_.archive());
  expect_whole(folder_.path());
  fs::rename(folder_ / archive_name(GetParam()), folder_ / "renamed");
  expect_whole(folder_ / "renamed");
}

TEST_P(Cifar, TakesTheFirstSamplesOfALimit) {
  write_text(folder_ / archive_name(GetParam()), content_.archive());
  const DatasetSource source = source_of(GetParam().classes, folder_.path());
  for (const std::int64_t limit : {1, 3, 4, 9}) {
    const Dataset dataset = open_dataset(source, {.limit = limit, .test_limit = 1});
    EXPECT_EQ(source.describe({.limit = limit}).train, limit);
    expect_samples(dataset.stored(Split::train)->samples, limit, 0);
    expect_samples(dataset.stored(Split::test)->samples, 1, 100);
  }
}

TEST_P(Cifar, NamesAMissingFileAndWhatToDownload) {
  content_.write(folder_.path());
  const std::string last = content_.files.back().first;
  fs::remove(folder_ / content_.name / last);
  expect_error(ErrorCode::io, {last + " does not exist", "cs.toronto.edu"},
               [&] { open_dataset(source_of(GetParam().classes, folder_.path())); });
  test::CifarFolder lacking = content_;
  lacking.files.pop_back();
  write_text(folder_ / "archive", lacking.archive());
  expect_error(ErrorCode::bad_file, {fmt::format("holds no {}/{}", content_.name, last)},
               [&] { open_dataset(source_of(GetParam().classes, folder_ / "archive")); });
}

TEST_P(Cifar, RefusesFilesCutOffAnywhere) {
  content_.write(folder_.path());
  const auto& [name, whole] = content_.files.front();
  const DatasetSource source = source_of(GetParam().classes, folder_.path());
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    write_text(folder_ / content_.name / name, whole.substr(0, size));
    expect_error(ErrorCode::bad_file, {name}, [&] { open_dataset(source); });
  }
  const std::string archive = content_.archive();
  for (std::size_t size = 2; size < archive.size(); size += archive.size() / 20) {
    write_text(folder_ / "archive", archive.substr(0, size));
    expect_error(ErrorCode::bad_file, {"archive"},
                 [&] { open_dataset(source_of(GetParam().classes, folder_ / "archive")); });
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Cifar,
                         testing::Values(Form{10, false}, Form{10, true}, Form{100, false},
                                         Form{100, true}),
                         [](const auto& info) {
                           return fmt::format("cifar{}_{}", info.param.classes,
                                              info.param.is_pickle ? "python" : "binary");
                         });

class CifarFiles : public testing::Test {
 protected:
  /// Training batch 1 of cifar10 becomes `content`.
  void expect_refused(const std::string& content, const std::vector<std::string>& parts) const {
    write_text(folder_ / file_, content);
    expect_error(ErrorCode::bad_file, parts, [&] { open_dataset(Cifar10{folder_.path()}); });
  }
  void use(bool is_pickle) {
    const test::CifarFolder content = cifar_folder(10, is_pickle);
    content.write(folder_.path());
    file_ = content.name + "/" + content.files[0].first;
  }

  const test::TemporaryFolder folder_;
  std::string file_;
};

TEST_F(CifarFiles, RefusesLabelsOutOfRange) {
  use(false);
  expect_refused(test::cifar_records({0, {1, 10}}, 10),
                 {"data_batch_1.bin", "label 10 for sample 1", "0 to 9"});
}

TEST_F(CifarFiles, RefusesPicklesOfAnotherContent) {
  use(true);
  expect_refused(test::cifar_pickle({0, {255}}, 10), {"label 255 for sample 0"});
  expect_refused(test::cifar_pickle({0, {1}}, 100), {"no entry 'labels'"});
  expect_refused("N.", {"no entry 'labels'"});
  std::string fewer = test::cifar_pickle({0, {1, 2}}, 10);
  fewer.replace(fewer.find("K\1K\2e"), 5, "K\1e");
  expect_refused(fewer, {"1 labels and data of the shape [2, 3072]"});
  std::string text = test::cifar_pickle({0, {1, 2}}, 10);
  text.replace(text.find("K\1K\2e"), 4, "K\1U\1x");
  expect_refused(text, {"not an integer"});
  expect_refused("cos\nsystem\n(S'true'\ntR.", {"os.system"});
}

TEST_F(CifarFiles, RefusesEmptyFilesAndOtherLengths) {
  use(false);
  expect_refused("", {"holds no samples"});
  expect_refused(std::string(3074, '\0'), {"3074 bytes", "records of 3073 bytes"});
}

TEST_F(CifarFiles, RefusesAnArchiveWithAFileTwice) {
  test::CifarFolder content = cifar_folder(10, false);
  content.files.push_back(content.files[0]);
  write_text(folder_ / "twice.tar.gz", content.archive());
  expect_error(ErrorCode::bad_file, {"data_batch_1.bin twice"},
               [&] { open_dataset(Cifar10{folder_ / "twice.tar.gz"}); });
}

TEST_F(CifarFiles, RefusesAnArchiveOfAnotherDataSet) {
  write_text(folder_ / "other.tar.gz", cifar_folder(100, true).archive());
  expect_error(ErrorCode::bad_file, {"holds no file of cifar10", "cifar-10-python.tar.gz"},
               [&] { open_dataset(Cifar10{folder_ / "other.tar.gz"}); });
}

TEST_F(CifarFiles, TellsWhatAWrongFolderHoldsAndDownloadsNothingIntoIt) {
  write_text(folder_ / "notes.txt", "none");
  std::filesystem::create_directory(folder_ / "train");
  expect_error(ErrorCode::io,
               {folder_.path().string(), "looked for data_batch_1", "cifar-10-python.tar.gz",
                "found notes.txt, train/", "run `fetch cifar10` and leave out `Dataset::path`"},
               [&] { open_dataset(Cifar10{folder_.path()}); });
}

TEST_F(CifarFiles, TellsWhereItLookedAndWhatToDownload) {
  expect_error(ErrorCode::io,
               {folder_.path().string(), "cifar-100-python", "cifar-100-binary.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "`Dataset::path`"},
               [&] { open_dataset(Cifar100{folder_.path()}); });
  ::setenv("TROUPE_DATA", folder_.path().c_str(), 1);
  expect_error(ErrorCode::io, {(folder_ / "cifar10").string(), "run `fetch cifar10`"},
               [] { open_dataset(Cifar10{}); });
  const std::string empty = folder_.path().string();
  expect_error(ErrorCode::io, {"run `fetch cifar10 " + empty + "`"},
               [&] { open_dataset(Cifar10{empty}); });
  expect_error(ErrorCode::io, {"looked for", "cifar-10-batches-py/", "found nothing"},
               [&] { open_dataset(Cifar10{empty}); });
  cifar_folder(10, false).write(folder_ / "cifar10");
  EXPECT_GT(open_dataset(Cifar10{}).count(Split::train), 0);
  ::unsetenv("TROUPE_DATA");
  expect_error(ErrorCode::bad_options, {"does not exist"},
               [&] { open_dataset(Cifar10{folder_ / "nothing"}); });
}

/// A batch as Python's own pickle stored it; see tests/golden/make_pickles.py.
class CifarOfPython : public testing::TestWithParam<std::string> {};

TEST_P(CifarOfPython, HasTheSamplesThatPythonStored) {
  const std::string text =
      test::read_text(TROUPE_SOURCE_DIR "/tests/golden/pickles/" + GetParam() + ".pickle");
  const CifarForm form{.files = {}, .is_pickle = true, .labels_key = "fine_labels"};
  const CifarBatch batch({"cifar100", 100, {}}, form, as_bytes(text), "some.pickle");
  EXPECT_THAT(batch.labels(), testing::ElementsAre(99, 0));
  std::vector<std::byte> pixels(2 * cifar_pixels);
  batch.copy_pixels(pixels);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    ASSERT_EQ(std::to_integer<std::size_t>(pixels[i]), i * 7 % 251);
}

INSTANTIATE_TEST_SUITE_P(Protocols, CifarOfPython,
                         testing::Values("python2", "protocol0", "protocol2", "protocol4",
                                         "protocol5", "column_major", "bytes"));

TEST(CifarBatch, ReadsAnArrayInColumnMajorOrder) {
  std::string text = test::cifar_pickle({0, {1, 2}}, 10);
  const std::size_t data = text.size() - 4 - 2 * cifar_pixels;
  text[data - 6] = '\x88';  // in Fortran's order
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3072; ++j)
      text[data + j * 2 + i] = test::cifar_image(static_cast<int>(i))[j];
  const CifarForm form{.files = {}, .is_pickle = true, .labels_key = "labels"};
  const CifarBatch batch({"cifar10", 10, {}}, form, as_bytes(text), "some.pickle");
  std::vector<std::byte> pixels(2 * cifar_pixels);
  batch.copy_pixels(pixels);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(std::memcmp(pixels.data() + i * cifar_pixels,
                          test::cifar_image(static_cast<int>(i)).data(), cifar_pixels),
              0);
}

}  // namespace
}  // namespace troupe

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <numeric>
#include <thread>

#include "actors/data/dataset_folder.h"
#include "actors/data/datasets.h"
#include "actors/data/memory_dataset.h"
#include "runtime/error.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

/// The bytes of an IDX file of u8 with these axes.
std::string idx(const std::vector<std::uint32_t>& dims, const std::string& elements) {
  std::string bytes = big_endian(0x0800 + static_cast<std::uint32_t>(dims.size()));
  for (std::uint32_t dim : dims) bytes += big_endian(dim);
  return bytes + elements;
}

/// A folder with a small but whole data set: 20 images of 3 x 2 for training, 6 for testing; pixel
/// j of image i is 6 i + j, its label i % 10.
class IdxFiles : public testing::Test {
 protected:
  IdxFiles() : folder_(fs::path(testing::TempDir()) / unique_name()) {
    fs::create_directories(folder_);
    write("train-images-idx3-ubyte", idx({20, 3, 2}, counted(120)));
    write("train-labels-idx1-ubyte", idx({20}, labels(20)));
    write("t10k-images-idx3-ubyte", idx({6, 3, 2}, counted(36)));
    write("t10k-labels-idx1-ubyte", idx({6}, labels(6)));
  }
  ~IdxFiles() override { fs::remove_all(folder_); }

  static std::string unique_name() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return std::string("troupe_dataset_") + test->name() + std::to_string(::getpid());
  }
  static std::string counted(int count) {
    std::string bytes(static_cast<std::size_t>(count), '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');
    return bytes;
  }
  static std::string labels(int count) {
    std::string bytes = counted(count);
    for (char& byte : bytes) byte = static_cast<char>(byte % 10);
    return bytes;
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  static std::string packed(const std::string& bytes) {
    std::string result(bytes.size() + 200, '\0');
    z_stream z{};
    deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    z.avail_in = static_cast<uInt>(bytes.size());
    z.next_out = reinterpret_cast<Bytef*>(result.data());
    z.avail_out = static_cast<uInt>(result.size());
    deflate(&z, Z_FINISH);
    result.resize(z.total_out);
    deflateEnd(&z);
    return result;
  }
  /// Replaces a plain file by a gzip file of these bytes.
  void write_packed(const std::string& name, const std::string& gzip) const {
    fs::remove(folder_ / name);
    write(name + ".gz", gzip);
  }
  Dataset open(std::int64_t limit = 0, std::int64_t test_limit = 0) const {
    return open_dataset(FashionMnist{folder_}, {.limit = limit, .test_limit = test_limit});
  }
  /// The error that opening, or waiting for the images, ends with.
  Error failure() const {
    try {
      const Dataset dataset = open();
      dataset.stored(Split::train)->samples;
      dataset.stored(Split::test)->samples;
    } catch (const Error& error) {
      EXPECT_FALSE(error.remedy().empty()) << error.what();
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorCode::internal, "");
  }

  fs::path folder_;
};

TEST_F(IdxFiles, OpensPlainFiles) {
  const Dataset dataset = open();
  EXPECT_EQ(dataset.samples().shape, (Shape{1, 3, 2}));
  EXPECT_EQ(dataset.samples().classes, 10);
  EXPECT_EQ(dataset.stored(Split::train)->samples.shape(), (Shape{20, 1, 3, 2}));
  EXPECT_EQ(dataset.stored(Split::test)->samples.shape(), (Shape{6, 1, 3, 2}));
  EXPECT_EQ(dataset.stored(Split::train)->samples.data<std::uint8_t>()[119], 119);
  EXPECT_EQ(dataset.stored(Split::train)->targets.data<std::int64_t>()[13], 3);
}

TEST_F(IdxFiles, MayHoldImagesOfSeveralChannelsAndAnyNumberOfClasses) {
  fs::remove(folder_ / "train-images-idx3-ubyte");
  write("train-images-idx4-ubyte", idx({10, 2, 3, 2}, counted(120)));
  write("t10k-images-idx3-ubyte", idx({3, 2, 3, 2}, counted(36)));
  write("train-labels-idx1-ubyte", idx({10}, counted(10)));
  write("t10k-labels-idx1-ubyte", idx({3}, std::string("\x01\x1e\x02")));
  const Dataset dataset = open();
  EXPECT_EQ(dataset.samples().shape, (Shape{2, 3, 2}));
  EXPECT_EQ(dataset.samples().classes, 31);
  EXPECT_EQ(DatasetSource(FashionMnist{folder_}).describe().samples.classes, 31);
  EXPECT_EQ(dataset.stored(Split::train)->samples.shape(), (Shape{10, 2, 3, 2}));
}

TEST_F(IdxFiles, TellsItsTrainingSamplesByOneHeader) {
  for (const char* other :
       {"train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    ASSERT_TRUE(fs::remove(folder_ / other));
  const DatasetSource source = FashionMnist{folder_};
  EXPECT_EQ(source.describe().train, 20);
  EXPECT_EQ(source.describe().samples.shape, (Shape{1, 3, 2}));
  EXPECT_EQ(source.describe({.limit = 7}).train, 7);
  EXPECT_EQ(source.describe({.limit = 21}).train, 20);
  EXPECT_EQ(DatasetSource(Synthetic{.count = 90}).describe({.limit = 100}).train, 90);
  write("train-images-idx3-ubyte", "no header");
  EXPECT_THROW(source.describe(), Error);
  fs::remove(folder_ / "train-images-idx3-ubyte");
  EXPECT_THROW(source.describe({.limit = 7}), Error);
}

TEST_F(IdxFiles, AreFoundUnderEachNameAndWhereTorchvisionStoresThem) {
  const auto first_label = [](const DatasetSource& source) {
    EXPECT_EQ(source.describe().train, 20);
    return open_dataset(source).stored(Split::train)->targets.data<std::int64_t>()[3];
  };
  EXPECT_EQ(first_label(Mnist{folder_}), 3);
  EXPECT_EQ(first_label(IdxFolder{folder_}), 3);
  EXPECT_EQ(open_dataset(Mnist{folder_}).name(), "mnist");
  for (const auto& file : fs::directory_iterator(fs::path(folder_)))
    if (file.is_regular_file()) {
      for (const char* below : {"MNIST/raw", "FashionMNIST/raw"}) {
        fs::create_directories(folder_ / below);
        fs::copy(file.path(), folder_ / below);
      }
      fs::remove(file.path());
    }
  EXPECT_EQ(first_label(Mnist{folder_}), 3);
  EXPECT_EQ(first_label(FashionMnist{folder_}), 3);
  EXPECT_THROW(open_dataset(IdxFolder{folder_}), Error);
}

TEST_F(IdxFiles, MayHaveAPointInTheirNames) {
  for (const char* part : {"train-images", "train-labels", "t10k-images", "t10k-labels"}) {
    const std::string end = std::string(part).ends_with("images") ? "idx3-ubyte" : "idx1-ubyte";
    fs::rename(folder_ / (part + ("-" + end)), folder_ / (part + ("." + end)));
  }
  EXPECT_EQ(open_dataset(Mnist{folder_}).count(Split::train), 20);
}

/// The environment's folder of data sets, until the end of a test.
class DataFolder {
 public:
  explicit DataFolder(const fs::path& folder) { ::setenv("TROUPE_DATA", folder.c_str(), 1); }
  ~DataFolder() { ::unsetenv("TROUPE_DATA"); }
};

TEST_F(IdxFiles, AreFoundInTheFolderOfDownloadsWithoutAPath) {
  const fs::path folder = folder_ / "mnist";
  fs::create_directory(folder);
  for (const auto& file : fs::directory_iterator(fs::path(folder_)))
    if (file.is_regular_file()) fs::rename(file.path(), folder / file.path().filename());
  const DataFolder environment(folder_);
  EXPECT_EQ(open_dataset(Mnist{}).count(Split::train), 20);
  EXPECT_THROW(open_dataset(IdxFolder{}), Error);
}

TEST(Mnist, SaysWhereItLookedAndHowToGetItWhereThereIsNoPath) {
  const DataFolder environment("/nonexistent");
  try {
    open_dataset(Mnist{});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.message(),
                HasSubstr("/nonexistent/mnist has neither train-images-idx3-ubyte"));
    EXPECT_THAT(error.remedy(), HasSubstr("run `fetch mnist`,"));
  }
}

TEST(DatasetFolder, FollowsTheEnvironment) {
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::unsetenv("XDG_DATA_HOME");
  ::setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(dataset_folder("mnist"), "/home/somebody/.local/share/troupe/mnist");
  ::setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_EQ(dataset_folder("mnist"), "/home/somebody/.local/share/troupe/mnist");
  ::setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(dataset_folder("mnist"), "/data/troupe/mnist");
  {
    const DataFolder environment("/scratch");
    EXPECT_EQ(dataset_folder("mnist"), "/scratch/mnist");
  }
  ::unsetenv("XDG_DATA_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(dataset_folder("mnist"), "");
  if (home != nullptr) ::setenv("HOME", before.c_str(), 1);
}

TEST_F(IdxFiles, OpensGzipFilesOfOneMemberOrSeveral) {
  const std::string bytes = idx({20, 3, 2}, counted(120));
  for (const std::string& gzip :
       {packed(bytes), packed(bytes.substr(0, 50)) + packed(bytes.substr(50))}) {
    write_packed("train-images-idx3-ubyte", gzip);
    const Tensor images = open().stored(Split::train)->samples;
    ASSERT_EQ(images.dim(0), 20);
    for (std::uint8_t i = 0; i < 120; ++i) EXPECT_EQ(images.data<std::uint8_t>()[i], i);
  }
}

TEST_F(IdxFiles, TakesTheFirstSamplesOfALimit) {
  write_packed("train-images-idx3-ubyte", packed(idx({20, 3, 2}, counted(120))));
  const Dataset dataset = open(7, 100);
  EXPECT_EQ(dataset.count(Split::train), 7);
  EXPECT_EQ(dataset.stored(Split::train)->samples.shape(), (Shape{7, 1, 3, 2}));
  EXPECT_EQ(dataset.stored(Split::train)->samples.data<std::uint8_t>()[41], 41);
  EXPECT_EQ(dataset.count(Split::test), 6);
}

TEST_F(IdxFiles, NamesAMissingFileAndThePackageThatHasIt) {
  fs::remove(folder_ / "t10k-labels-idx1-ubyte");
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.message(), HasSubstr(" has neither t10k-labels-idx1-ubyte nor "));
  EXPECT_THAT(error.remedy(), HasSubstr("apt-get install dataset-fashion-mnist"));
}

// Debian's package cannot make a folder that the caller names.
TEST(FashionMnistFolder, IsThatOfDebiansPackageOnlyWithoutAPath) {
  FashionMnist data;
  data.path = "/nonexistent";
  const auto remedy = [&] {
    try {
      data.describe({});
    } catch (const Error& error) {
      return error.remedy();
    }
    return std::string("none");
  }();
  EXPECT_EQ(remedy,
            "run `fetch fashion_mnist /nonexistent`, set `Dataset::path` to the folder of the four "
            "files, or run apt-get install dataset-fashion-mnist and leave `Dataset::path` empty");
}

TEST_F(IdxFiles, RefusesCountsThatDiffer) {
  write("train-labels-idx1-ubyte", idx({19}, labels(19)));
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::bad_file);
  EXPECT_THAT(error.message(), testing::AllOf(HasSubstr("20 images"), HasSubstr("19 labels")));
}

TEST_F(IdxFiles, RefusesTestImagesOfAnotherSize) {
  write("t10k-images-idx3-ubyte", idx({6, 2, 3}, counted(36)));
  EXPECT_THAT(failure().message(), testing::AllOf(HasSubstr("[1, 3, 2] for training"),
                                                  HasSubstr("[1, 2, 3] for testing")));
}

TEST_F(IdxFiles, RefusesFilesThatAreNotIdx) {
  for (const std::string& bytes : {std::string("<html>nothing here</html>"), std::string(),
                                   idx({20}, labels(20)), std::string(3, '\0')}) {
    write("train-images-idx3-ubyte", bytes);
    EXPECT_EQ(failure().code(), ErrorCode::bad_file);
  }
}

TEST_F(IdxFiles, RefusesFilesCutOffAnywhere) {
  const std::string images = idx({20, 3, 2}, counted(120)), ten = idx({20}, labels(20));
  for (std::size_t size = 0; size < ten.size(); size += 3) {
    write("train-labels-idx1-ubyte", ten.substr(0, size));
    EXPECT_EQ(failure().code(), ErrorCode::bad_file) << size;
  }
  write("train-labels-idx1-ubyte", ten);
  for (std::size_t size = 0; size < images.size(); size += 5) {
    write("train-images-idx3-ubyte", images.substr(0, size));
    EXPECT_EQ(failure().code(), ErrorCode::bad_file) << size;
  }
  const std::string gzip = packed(images);
  for (std::size_t size = 0; size < gzip.size(); size += 5) {
    write_packed("train-images-idx3-ubyte", gzip.substr(0, size));
    EXPECT_EQ(failure().code(), ErrorCode::bad_file) << size;
  }
}

TEST_F(IdxFiles, RefusesFilesThatGoOn) {
  const std::string longer = idx({20, 3, 2}, counted(121));
  write("train-images-idx3-ubyte", longer);
  EXPECT_EQ(failure().code(), ErrorCode::bad_file);
  write_packed("train-images-idx3-ubyte", packed(longer));
  EXPECT_EQ(failure().code(), ErrorCode::bad_file);
  write_packed("train-images-idx3-ubyte", packed(idx({20, 3, 2}, counted(120))) + "junk");
  EXPECT_EQ(failure().code(), ErrorCode::bad_file);
}

TEST_F(IdxFiles, NeverShowsWrongPixelsFromGzipWithAFlippedBit) {
  const std::string elements = counted(120), gzip = packed(idx({20, 3, 2}, elements));
  int refused = 0, tried = 0;
  for (std::size_t at = 10; at < gzip.size(); ++at, ++tried) {
    std::string flipped = gzip;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    write_packed("train-images-idx3-ubyte", flipped);
    try {
      const Tensor images = open().stored(Split::train)->samples;
      EXPECT_EQ(std::memcmp(elements.data(), images.raw(), elements.size()), 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      ++refused;
    }
  }
  EXPECT_GE(refused, tried - 1);  // one byte may end in bits that mean nothing
}

TEST_F(IdxFiles, RefusesAbsurdSizesBeforeTakingMemory) {
  constexpr std::uint32_t most = 0xffffffff;
  for (const auto& dims : std::vector<std::vector<std::uint32_t>>{
           {most, most, most}, {20, most, most}, {20, 1u << 31, 1u << 31}, {0, 3, 2}, {20, 0, 2}}) {
    write("train-images-idx3-ubyte", idx(dims, counted(120)));
    EXPECT_EQ(failure().code(), ErrorCode::bad_file);
    write_packed("train-images-idx3-ubyte", packed(idx(dims, counted(120))));
    EXPECT_EQ(failure().code(), ErrorCode::bad_file);
    fs::remove(folder_ / "train-images-idx3-ubyte.gz");
  }
}

TEST_F(IdxFiles, TellsOfDamagedImagesEveryTimeTheyAreAskedFor) {
  write_packed("t10k-images-idx3-ubyte", packed(idx({6, 3, 2}, counted(35))));
  const Dataset dataset = open();
  EXPECT_EQ(dataset.count(Split::test), 6);
  for (int time = 0; time < 2; ++time) EXPECT_THROW(dataset.stored(Split::test)->samples, Error);
  EXPECT_NO_THROW(dataset.stored(Split::train)->samples);
}

TEST_F(IdxFiles, MayBeClosedBeforeItsImagesAreRead) {
  for (int time = 0; time < 10; ++time) open();
}

TEST_F(IdxFiles, IsReadByManyThreadsAtOnce) {
  const Dataset dataset = open();
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&dataset] {
      EXPECT_EQ(dataset.stored(Split::train)->samples.dim(0), 20);
      EXPECT_EQ(dataset.stored(Split::test)->samples.dim(0), 6);
    });
  for (auto& reader : readers) reader.join();
}

TEST(FashionMnist, HasSixThousandImagesAClassForTrainingAndOneThousandForTesting) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "apt-get install dataset-fashion-mnist";
  const Dataset dataset = open_dataset(FashionMnist{});
  EXPECT_EQ(dataset.samples().shape, (Shape{1, 28, 28}));
  for (const auto& [split, each] :
       {std::pair{Split::train, std::int64_t{6000}}, std::pair{Split::test, std::int64_t{1000}}}) {
    EXPECT_EQ(dataset.count(split), 10 * each);
    EXPECT_EQ(dataset.stored(split)->samples.shape(), (Shape{10 * each, 1, 28, 28}));
    std::array<int, 10> histogram{};
    for (std::int64_t label : dataset.stored(split)->targets.elements<std::int64_t>())
      ++histogram.at(static_cast<std::size_t>(label));
    EXPECT_THAT(histogram, testing::Each(each));
  }
  // The data set's published mean and standard deviation of the training pixels.
  double sum = 0, squares = 0;
  const auto pixels = dataset.stored(Split::train)->samples.elements<std::uint8_t>();
  for (std::uint8_t pixel : pixels) sum += pixel, squares += double{1} * pixel * pixel;
  const double mean = sum / 255 / static_cast<double>(pixels.size());
  EXPECT_NEAR(mean, 0.2860, 5e-5);
  EXPECT_NEAR(std::sqrt(squares / 255 / 255 / static_cast<double>(pixels.size()) - mean * mean),
              0.3530, 5e-5);
}

TEST(Synthetic, IsAFunctionOfItsOptions) {
  const Synthetic source{.shape = {3, 8, 8}, .count = 60};
  const Dataset one = open_dataset(source), same = open_dataset(source);
  const Dataset other = open_dataset(source, {.seed = 2});
  const auto bytes = [](const Dataset& dataset, Split split) {
    const auto elements = dataset.stored(split)->samples.elements<std::uint8_t>();
    return std::vector(elements.begin(), elements.end());
  };
  EXPECT_EQ(one.count(Split::train), 60);
  EXPECT_EQ(one.count(Split::test), 10);
  EXPECT_EQ(bytes(one, Split::train), bytes(same, Split::train));
  EXPECT_NE(bytes(one, Split::train), bytes(other, Split::train));
}

// The class whose mean training image is nearest is the right one: so there is much to learn.
TEST(Synthetic, CanBeLearnt) {
  const Dataset dataset = open_dataset(Synthetic{.count = 1200});
  const auto images = dataset.stored(Split::train)->samples,
             tests = dataset.stored(Split::test)->samples;
  std::vector<std::array<double, 784>> means(10);
  for (std::int64_t i = 0; i < 1200; ++i)
    for (std::int64_t j = 0; j < 784; ++j)
      means[static_cast<std::size_t>(i % 10)][static_cast<std::size_t>(j)] +=
          images.data<std::uint8_t>()[i * 784 + j] / 120.0;
  int right = 0;
  for (std::int64_t i = 0; i < tests.dim(0); ++i) {
    std::vector<double> distance(10);
    for (std::size_t label = 0; label < 10; ++label)
      for (std::int64_t j = 0; j < 784; ++j)
        distance[label] += std::pow(
            tests.data<std::uint8_t>()[i * 784 + j] - means[label][static_cast<std::size_t>(j)], 2);
    const auto nearest = std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += nearest == dataset.stored(Split::test)->targets.data<std::int64_t>()[i];
  }
  EXPECT_EQ(right, 200);
}

TEST(Synthetic, RefusesSizesThatCannotBe) {
  EXPECT_THROW(open_dataset(Synthetic{.shape = {28, 28}}), Error);
  EXPECT_THROW(open_dataset(Synthetic{.shape = {1, 0, 28}}), Error);
  EXPECT_THROW(open_dataset(Synthetic{.shape = {1LL << 40, 1LL << 40, 1LL << 40}}), Error);
  EXPECT_THROW(open_dataset(Synthetic{.classes = 0}), Error);
  EXPECT_THROW(open_dataset(Synthetic{.count = -1}), Error);
}

TEST(Synthetic, TellsToTakeFewerSamplesWhereMemoryIsShort) {
  try {
    open_dataset(Synthetic{.count = 100'000'000'000'000});  // more than a process can address
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("out of memory"));
    EXPECT_THAT(error.remedy(), testing::HasSubstr("`Dataset::count`"));
  }
}

/// Samples for which no machine has memory, when they are opened or when they are first used.
struct TooLarge {
  static constexpr std::string_view name = "too_large";
  std::launch when = std::launch::deferred;

  std::shared_ptr<const SampleReader> open(const DatasetOptions&) const {
    const auto make = [] {
      return Tensor::empty(Shape{std::int64_t{1} << 56}, DType::u8, Device::cpu());
    };
    const Tensor targets = Tensor::empty(Shape{1}, DType::i64, Device::cpu());
    std::shared_future<Tensor> samples = std::async(std::launch::deferred, make).share();
    if (when == std::launch::async) samples.get();
    const MemoryDataset::Part part{targets, samples};
    return std::make_shared<MemoryDataset>(name, SampleSpec{.shape = {1, 1, 1}}, part, part);
  }
};

TEST(OpenDataset, SpeaksOfSamplesWhereTheyExceedTheMemory) {
  const auto expect_told = [](const auto& act) {
    try {
      act();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_THAT(error.message(),
                  testing::HasSubstr("samples of too_large: out of memory on cpu"));
      EXPECT_THAT(error.remedy(), testing::HasSubstr("more memory"));
      EXPECT_THAT(error.remedy(), testing::HasSubstr(".npy"));
      EXPECT_THAT(error.remedy(), testing::Not(testing::HasSubstr("batch_size")));
    }
  };
  expect_told([] { open_dataset(TooLarge{std::launch::async}); });
  expect_told([] { (void)DatasetSource(TooLarge{std::launch::async}).describe(); });
  const Dataset later = open_dataset(TooLarge{});
  expect_told([&] { (void)later.stored(Split::train); });
}

TEST(OpenDataset, RefusesUnknownNamesAndNegativeLimits) {
  EXPECT_THROW(find_definition(known_datasets(), "imagenet"), Error);
  EXPECT_THROW(open_dataset(Synthetic{}, {.limit = -1}), Error);
  EXPECT_THROW(open_dataset(Synthetic{}, {.test_limit = -1}), Error);
}

TEST(OpenDataset, NamesAFolderThatIsNotThere) {
  try {
    open_dataset(FashionMnist{"/nonexistent"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                HasSubstr("/nonexistent has neither train-images-idx3-ubyte nor "));
  }
}

}  // namespace
}  // namespace troupe

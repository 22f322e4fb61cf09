// The same arrays as .npy, .npz and HDF5 files and zarr folders give the same batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>

#include "actors/data/batch_maker.h"
#include "actors/data/hdf5_arrays.h"
#include "actors/data/npy_folder.h"
#include "actors/data/npz_arrays.h"
#include "actors/data/zarr_arrays.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

const std::filesystem::path arrays = TROUPE_SOURCE_DIR "/tests/golden/arrays";

std::vector<DatasetSource> formats(double test_fraction = 0, bool with_test = true) {
  const std::string x = with_test ? "x_test" : "none", y = with_test ? "y_test" : "none";
  const ArrayNames names{.test_samples = x, .test_targets = y, .test_fraction = test_fraction};
  std::vector<DatasetSource> all{NpyFolder{.path = arrays,
                                           .test_samples = x + ".npy",
                                           .test_targets = y + ".npy",
                                           .test_fraction = test_fraction}};
  for (const char* name : {"stored.npz", "deflated.npz"})
    all.emplace_back(NpzArrays{arrays / name, names});
  for (const char* name : {"contiguous.h5", "swapped.h5", "chunked.h5", "packed.h5", "netcdf.nc"})
    all.emplace_back(Hdf5Arrays{arrays / name, names});
  for (const char* name : {"format_2.zarr", "format_3.zarr"})
    all.emplace_back(ZarrArrays{arrays / name, names});
  return all;
}

TEST(ArrayFormats, GiveTheSameBatches) {
  for (const DatasetSource& source : formats()) {
    const Dataset data = open_dataset(source);
    EXPECT_EQ(data.samples().shape, (Shape{1, 2, 3}));
    EXPECT_EQ(data.samples().classes, 3);
    EXPECT_EQ(data.count(Split::train), 10);
    EXPECT_EQ(data.count(Split::test), 2);
    EXPECT_EQ(source.describe().train, 10);
    const Batch batch = BatchMaker(data, Split::train, {}).make({.samples = {7, 0}});
    EXPECT_EQ(batch.samples.shape(), (Shape{2, 1, 2, 3}));
    EXPECT_THAT(batch.samples.elements<float>(),
                testing::ElementsAre(42, 43, 44, 45, 46, 47, 0, 1, 2, 3, 4, 5));
    EXPECT_THAT(batch.targets.elements<std::int64_t>(), testing::ElementsAre(1, 0));
    const Batch test = BatchMaker(data, Split::test, {}).make({.samples = {1}});
    EXPECT_EQ(test.samples.elements<float>()[0], 6);
  }
}

TEST(ArrayFormats, HoldOutTheSameSamples) {
  std::vector<std::vector<float>> seen;
  for (const DatasetSource& source : formats(0.3, false)) {
    const Dataset data = open_dataset(source, {.seed = 5});
    EXPECT_EQ(data.count(Split::test), 3);
    const Batch batch = BatchMaker(data, Split::test, {}).make({.samples = {0, 1, 2}});
    const auto values = batch.samples.elements<float>();
    seen.emplace_back(values.begin(), values.end());
  }
  EXPECT_THAT(seen, testing::Each(seen[0]));
}

TEST(ArrayFormats, NameTheArraysThatAreThere) {
  const ArrayNames other{.train_samples = "images"};
  for (const DatasetSource& source : {DatasetSource(NpzArrays{arrays / "stored.npz", other}),
                                      DatasetSource(Hdf5Arrays{arrays / "chunked.h5", other}),
                                      DatasetSource(ZarrArrays{arrays / "format_3.zarr", other})})
    test::expect_error(ErrorCode::bad_options,
                       {"has no array images", "`Dataset::train_samples`", "x_train"},
                       [&] { open_dataset(source); });
  const ArrayNames half{.test_targets = "none"};
  test::expect_error(ErrorCode::bad_options, {"has no array none"}, [&] {
    open_dataset(NpzArrays{arrays / "stored.npz", half});
  });
}

TEST(ArrayFormats, NameAPathThatIsNoFile) {
  test::expect_error(ErrorCode::bad_options, {"`Dataset::path`", "which does not exist"},
                     [&] { open_dataset(NpzArrays{"/nonexistent"}); });
  test::expect_error(ErrorCode::bad_options, {"`Dataset::path`", "which is not a file"},
                     [&] { open_dataset(Hdf5Arrays{arrays}); });
  test::expect_error(ErrorCode::io, {"hdf5 has no `Dataset::path`"},
                     [&] { open_dataset(Hdf5Arrays{}); });
  test::expect_error(ErrorCode::bad_file, {"contiguous.h5"},
                     [&] { open_dataset(NpzArrays{arrays / "contiguous.h5"}); });
  test::expect_error(ErrorCode::bad_file, {"stored.npz", "file signature not found"},
                     [&] { open_dataset(Hdf5Arrays{arrays / "stored.npz"}); });
  const test::TemporaryFolder folder;
  test::write_text(folder / "classic.nc", std::string("CDF\1\0\0\0\0", 8));
  test::expect_error(ErrorCode::bad_file, {"classic.nc", "netCDF's classic format", "nccopy"},
                     [&] { open_dataset(Hdf5Arrays{folder / "classic.nc"}); });
  test::expect_error(ErrorCode::io, {"zarr has no `Dataset::path`"},
                     [&] { open_dataset(ZarrArrays{}); });
  test::expect_error(ErrorCode::bad_options, {"stored.npz", "not a folder", "zip archive"},
                     [&] { open_dataset(ZarrArrays{arrays / "stored.npz"}); });
  test::expect_error(ErrorCode::bad_file, {"x_train", "the folder above the arrays"},
                     [&] { open_dataset(ZarrArrays{arrays / "format_2.zarr/x_train"}); });
  test::expect_error(ErrorCode::bad_options, {"not a folder", "npz"},
                     [&] { open_dataset(NpyFolder{.path = arrays / "stored.npz"}); });
}

/// A folder of four arrays, of which `test::write_text` may add the files of chunks.
class ZarrArraysOfRows : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& dtype, const std::string& shape,
           const std::string& chunk) const {
    std::filesystem::create_directories(folder_ / name);
    test::write_text(folder_ / (name + "/.zarray"),
                     R"({"zarr_format": 2, "shape": )" + shape + R"(, "chunks": )" + chunk +
                         R"(, "dtype": ")" + dtype +
                         R"(", "fill_value": 0, "order": "C", "filters": null,
                             "compressor": null})");
  }
  DatasetSource source() const { return ZarrArrays{folder_.path()}; }

  test::TemporaryFolder folder_;
};

TEST_F(ZarrArraysOfRows, HaveTargetsOfTraining) {
  for (const char* part : {"train", "test"}) {
    add(std::string("x_") + part, "<f4", "[2, 3]", "[1, 3]");
    add(std::string("y_") + part, "<i8", "[2]", "[1]");
    test::write_text(folder_ / (std::string("x_") + part + "/0.0"), std::string(12, '\0'));
  }
  for (const auto& use : {std::function<void()>([&] { (void)source().describe(); }),
                          std::function<void()>([&] { (void)open_dataset(source()); })})
    test::expect_error(ErrorCode::bad_file, {"y_train", "no file of its chunks is there"}, use);
  test::write_text(folder_ / "y_train/0", std::string(8, '\0'));
  EXPECT_EQ(open_dataset(source()).count(Split::test), 2) << "targets of the test may be unknown";
}

TEST_F(ZarrArraysOfRows, CountTheChunksThatAreKeptAsMemory) {
  for (const char* part : {"train", "test"}) {
    add(std::string("x_") + part, "<f4", "[100, 1000]", "[10, 1000]");
    add(std::string("y_") + part, "<i8", "[100]", "[100]");
    test::write_text(folder_ / (std::string("x_") + part + "/0.0"), std::string(40'000, '\0'));
    test::write_text(folder_ / (std::string("y_") + part + "/0"), std::string(800, '\0'));
  }
  const Dataset data = open_dataset(source());
  const std::size_t arrays = std::size_t{2} * (400'000 + 800);
  EXPECT_GE(data.bytes_in_memory(), arrays);
  EXPECT_LE(data.bytes_in_memory(), arrays + std::size_t{20} * 1024) << "no more than all chunks";
  EXPECT_EQ(data.bytes_per_thread(), 2 * 40'000u) << "a chunk, packed and unpacked";
}

// Either array of targets would fit alone.
TEST_F(ZarrArraysOfRows, AreRefusedIfTheirTargetsDoNotFitTogether) {
  for (const char* part : {"train", "test"}) {
    add(std::string("x_") + part, "<f4", "[3000000, 1000]", "[1, 1000]");
    add(std::string("y_") + part, "<i8", "[3000000]", "[1000]");
  }
  ::setenv("SLURM_MEM_PER_NODE", "32", 1);
  test::expect_error(ErrorCode::bad_file,
                     {"y_test", "3000000 elements of i64, after 24000000 bytes of others",
                      "this job has a memory of 33554432 bytes", "targets are read into it"},
                     [&] { (void)open_dataset(source()); });
  ::unsetenv("SLURM_MEM_PER_NODE");
}

// Samples whose checksum is wrong, which any reading of them would name.
test::MadeMember unreadable(const std::string& name, const std::string& shape, std::size_t bytes) {
  return {.name = name + ".npy",
          .content =
              test::npy_file("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }",
                             std::string(bytes, '\0')),
          .deflated = true,
          .crc = 1};
}

TEST(ArrayFormats, AreDescribedWithoutReadingTheirSamples) {
  const test::TemporaryFolder folder;
  auto targets = unreadable("y_train", "(10,)", 10);
  targets.crc = -1;  // the true one
  test::write_text(folder / "a.npz",
                   test::zip_of({unreadable("x_train", "(10, 2, 3)", 60), targets}));
  const DatasetSource source = NpzArrays{folder / "a.npz", {.test_fraction = 0.2}};
  const DatasetSummary summary = source.describe();
  EXPECT_EQ(summary.samples.shape, (Shape{1, 2, 3}));
  EXPECT_EQ(summary.samples.dtype, DType::u8);
  EXPECT_EQ(summary.train, 8);
  EXPECT_EQ(summary.test, 2);
  test::expect_error(ErrorCode::bad_file, {"x_train.npy in", "CRC"}, [&] { open_dataset(source); });
  for (const DatasetSource& other : formats()) {
    EXPECT_EQ(other.describe().test, 2);
    EXPECT_EQ(other.describe().samples.classes, 3);
  }
}

TEST(ArrayFormats, AreComparedBeforeAnArrayIsUnpacked) {
  const test::TemporaryFolder folder;
  const auto expect_refused = [&](const std::vector<test::MadeMember>& members,
                                  const std::vector<std::string>& parts) {
    test::write_text(folder / "a.npz", test::zip_of(members));
    test::expect_error(ErrorCode::bad_file, parts,
                       [&] { open_dataset(NpzArrays{folder / "a.npz"}); });
  };
  const auto x = unreadable("x_train", "(10, 2, 3)", 60), y = unreadable("y_train", "(10,)", 10);
  expect_refused({x, y}, {"CRC"});
  expect_refused({x, unreadable("y_train", "(1000000,)", 1'000'000)},
                 {"y_train in", "has the shape [1000000] for 10 samples in x_train"});
  expect_refused({unreadable("x_train", "(10, 1, 1, 2, 3)", 60), y}, {"has the shape [10"});
  expect_refused(
      {x, y, unreadable("x_test", "(2, 500, 1000)", 1'000'000), unreadable("y_test", "(2,)", 2)},
      {"x_test in", "has samples u8 of [1, 500, 1000], but x_train"});
  expect_refused({x, y, unreadable("x_test", "(2, 2, 3)", 12), unreadable("y_test", "(3,)", 3)},
                 {"y_test in", "for 2 samples in x_test"});
}

}  // namespace
}  // namespace troupe

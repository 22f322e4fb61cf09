#include "runtime/file/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <numeric>
#include <thread>

#include "tests/unit/runtime/file/hdf5_text.h"
#include "tests/unit/runtime/file/support.h"

// libhdf5 1.10 forgets memory on its way back from some damaged files.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(*-identifier*)
  return "leak:libhdf5";
}

namespace troupe {
namespace {

using test::expect_error;
using test::Hdf5Set;
using test::Hdf5Writer;
using test::read_text;
using test::write_text;
using testing::ElementsAre;

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

class Hdf5 : public testing::Test {
 protected:
  Hdf5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }
  std::filesystem::path path() const { return folder_ / "a.h5"; }
  Tensor read(const std::string& name = "x") const { return Hdf5File(path()).read(name); }
  void expect_refused(const std::vector<std::string>& parts, const std::string& name = "x") const {
    expect_error(ErrorCode::bad_file, parts, [&] { read(name); });
  }
  void write(const std::vector<float>& values, const Hdf5Set& set) const {
    Hdf5Writer(path()).add("x", H5T_NATIVE_FLOAT, values, set);
  }
  test::TemporaryFolder folder_;
};

TEST_F(Hdf5, OfH5pyIsRead) {
  for (const char* name : {"contiguous.h5", "swapped.h5", "chunked.h5", "packed.h5"}) {
    SCOPED_TRACE(name);
    const Hdf5File file(std::string(TROUPE_SOURCE_DIR "/tests/golden/arrays/") + name);
    EXPECT_THAT(file.names(), ElementsAre("x_test", "x_train", "y_test", "y_train"));
    const Tensor x = file.read("x_train");
    EXPECT_EQ(x.shape(), (Shape{10, 2, 3}));
    EXPECT_EQ(x.dtype(), DType::f32);
    EXPECT_THAT(x.elements<float>(), testing::ElementsAreArray(ramp(60)));
    EXPECT_THAT(file.read("y_train").elements<std::int64_t>(),
                ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0));
  }
}

TEST_F(Hdf5, HoldsIntegersAndNumbersOfAllSizes) {
  const std::vector<std::pair<hid_t, DType>> types = {
      {H5T_STD_U8LE, DType::u8},   {H5T_STD_I8BE, DType::i8},   {H5T_STD_U16LE, DType::u16},
      {H5T_STD_I16BE, DType::i16}, {H5T_STD_U32BE, DType::u32}, {H5T_STD_I32LE, DType::i32},
      {H5T_STD_U64BE, DType::u64}, {H5T_STD_I64LE, DType::i64}, {H5T_IEEE_F32BE, DType::f32},
      {H5T_IEEE_F64LE, DType::f64}};
  for (const auto& [type, dtype] : types)
    for (const bool compact : {false, true}) {
      Hdf5Set set{.shape = {3}, .type = type};
      if (compact) set.with = [](hid_t creation) { H5Pset_layout(creation, H5D_COMPACT); };
      write({1, 2, 100}, set);
      const Tensor tensor = read();
      EXPECT_EQ(tensor.dtype(), dtype);
      std::size_t low = 0;  // the third element's lowest byte
      if (dtype != DType::f32 && dtype != DType::f64) {
        low = 2 * size_of(dtype);
        EXPECT_EQ(tensor.raw()[low], std::byte{100}) << name_of(dtype);
      } else if (dtype == DType::f32) {
        EXPECT_EQ(tensor.elements<float>()[2], 100);
      } else {
        EXPECT_EQ(tensor.elements<double>()[2], 100);
      }
    }
}

TEST_F(Hdf5, GivesRowsOfChunksThatDivideAllAxes) {
  // Grids of 4 x 2 x 2, 1 x 3 x 3 and 2 x 1 x 3 chunks: which axis is divided more often differs.
  for (const std::vector<hsize_t>& chunk : {std::vector<hsize_t>{2, 3, 2}, {7, 2, 1}, {4, 5, 1}}) {
    write(ramp(std::size_t{7} * 5 * 3),
          {.shape = {7, 5, 3}, .chunk = chunk, .with = [](hid_t creation) {
             H5Pset_deflate(creation, 6);
           }});
    const auto chunks = Hdf5File(path()).chunked("x");
    ASSERT_NE(chunks, nullptr);
    ASSERT_EQ(chunks->row_bytes(), 60U);
    for (const std::int64_t row : {6, 0, 3, 3}) {
      std::vector<float> values(15), expected(15);
      std::iota(expected.begin(), expected.end(), static_cast<float>(15 * row));
      chunks->read_row(row, std::as_writable_bytes(std::span(values)));
      EXPECT_EQ(values, expected) << "row " << row << " of " << testing::PrintToString(chunk);
    }
  }
}

TEST_F(Hdf5, TakesChunksBeyondTheEndsOfAxesAsTheyAreIfTheFileSaysSo) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  Hdf5Writer(path(), access)
      .add("x", H5T_NATIVE_FLOAT, ramp(35),
           {.shape = {7, 5}, .chunk = {3, 2}, .with = [](hid_t creation) {
              H5Pset_shuffle(creation);
              H5Pset_deflate(creation, 6);
              H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
            }});
  H5Pclose(access);
  EXPECT_THAT(read().elements<float>(), testing::ElementsAreArray(ramp(35)));
}

TEST_F(Hdf5, IsReadByManyThreads) {
  write(ramp(400), {.shape = {100, 4}, .chunk = {3, 4}});
  const auto chunks = Hdf5File(path()).chunked("x");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int row = t; row < 100; ++row) {
        std::array<float, 4> values{};
        chunks->read_row(row, std::as_writable_bytes(std::span(values)));
        EXPECT_EQ(values[3], static_cast<float>(4 * row + 3));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(Hdf5, IsFoundInGroupsByHardLinksOnly) {
  {
    const Hdf5Writer writer(path());
    const hid_t group = H5Gcreate2(writer.file(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    writer.add("g/x", H5T_NATIVE_FLOAT, ramp(3), {.shape = {3}});
    H5Lcreate_hard(writer.file(), "/g", group, "again", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/g/x", writer.file(), "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/loop", writer.file(), "loop", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("/etc/passwd", "/x", writer.file(), "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    H5Gclose(H5Gcreate2(writer.file(), "none", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  const Hdf5File file(path());
  EXPECT_TRUE(file.contains("g/x"));
  EXPECT_EQ(file.read("g/again/again/x").elements<float>()[2], 2);
  for (const char* none : {"x", "", "/", "g/", "g//x", "g/y", "x/g"})
    EXPECT_FALSE(file.contains(none)) << none;
  expect_refused({"soft is a soft link", "the path of the data set"}, "soft");
  expect_refused({"loop is a soft link"}, "loop");
  expect_refused({"external is an external link"}, "external");
  expect_refused({"it is a group", "again, x"}, "g");
  expect_refused({"it is an empty group"}, "none");
  expect_refused({"does not exist"}, "nothing");
}

TEST_F(Hdf5, RefusesOtherTypes) {
  const hid_t compound = H5Tcreate(H5T_COMPOUND, 4);
  H5Tinsert(compound, "a", 0, H5T_NATIVE_FLOAT);
  const hid_t boolean = H5Tenum_create(H5T_STD_I8LE);
  const std::int8_t no = 0;
  H5Tenum_insert(boolean, "FALSE", &no);
  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  for (const auto& [type, words] :
       {std::pair{compound, "structures"}, std::pair{boolean, "enumerations"},
        std::pair{half, "floating-point numbers of an unusual form"}, std::pair{text, "texts"},
        std::pair{H5T_STD_REF_OBJ, "references"}}) {
    H5Dclose(Hdf5Writer(path()).create("x", {.shape = {3}, .type = type}));
    expect_refused({words});
  }
}

TEST_F(Hdf5, RefusesOtherFiltersAndElementsElsewhere) {
  const auto refuse = [&](const std::string& part, const std::vector<hsize_t>& chunk,
                          std::function<void(hid_t)> with) {
    write(ramp(6), {.shape = {6}, .chunk = chunk, .with = std::move(with)});
    expect_refused({part});
  };
  refuse("filter number 6", {6},
         [](hid_t creation) { H5Pset_scaleoffset(creation, H5Z_SO_FLOAT_DSCALE, 2); });
  refuse("filter number 32000", {6},
         [](hid_t creation) { H5Pset_filter(creation, 32000, H5Z_FLAG_OPTIONAL, 0, nullptr); });
  refuse("filter number 1 twice", {6}, [](hid_t creation) {
    H5Pset_deflate(creation, 1);
    H5Pset_deflate(creation, 1);
  });
  refuse("in other files", {},
         [&](hid_t creation) { H5Pset_external(creation, (folder_ / "other").c_str(), 0, 24); });
  refuse("it is virtual", {}, [&](hid_t creation) {
    const hsize_t size = 6;
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    H5Pset_virtual(creation, space, "other.h5", "x", space);
    H5Sclose(space);
  });
}

TEST_F(Hdf5, RefusesSizesThatCannotBeInTheFile) {
  const hsize_t many = hsize_t{1} << 40;
  const auto refuse = [&](const Hdf5Set& set, const std::vector<std::string>& parts) {
    H5Dclose(Hdf5Writer(path()).create("x", set));
    expect_refused(parts);
  };
  refuse({.shape = {many}}, {"1099511627776", "bytes are stored in a file of"});
  refuse({.shape = {many, 1000, 1000}, .chunk = {1, 1000, 1000}}, {"too large at axis"});
  refuse({.shape = {many, 1000}, .chunk = {1, 1000}}, {"bytes are stored"});
  refuse({.shape = {many}, .chunk = {hsize_t{1} << 29}}, {"268435456 bytes or more"});
  refuse({.shape = {10}, .chunk = {2}}, {"never written"});
  const auto pack = [](hid_t creation) { H5Pset_deflate(creation, 6); };
  refuse({.shape = {10}, .chunk = {2}, .with = pack}, {"never written"});
  refuse({.shape = {2, 1, 1, 1, 1, 1, 1}}, {"it has 7 axes"});
  H5Dclose(Hdf5Writer(path()).create("x", {.shape = {0, 3}, .chunk = {1, 3}}));
  EXPECT_EQ(read().element_count(), 0);
}

TEST_F(Hdf5, RefusesRowsThatWereNeverWritten) {
  {
    const Hdf5Writer writer(path());
    writer.add_raw("x", std::string(4000, '\0'), {.shape = {2000}, .chunk = {1000}});
  }
  expect_refused({"never written"});
}

TEST_F(Hdf5, RefusesChunksThatUnpackToAnotherSizeOrHaveAWrongChecksum) {
  const std::string large(1 << 20, '\0');
  std::string packed(large.size(), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(large.data()), large.size());
  packed.resize(size);
  const Hdf5Set set{.shape = {4096}, .chunk = {4096}, .with = [](hid_t creation) {
                      H5Pset_deflate(creation, 1);
                    }};
  for (const std::string& bytes :
       {packed, packed.substr(0, packed.size() / 2), std::string("text"), std::string(40, 'x')}) {
    Hdf5Writer(path()).add_raw("x", bytes, set);
    expect_refused({});
  }
  Hdf5Writer(path()).add_raw("x", packed, set);
  expect_refused({"does not unpack to its 16384 bytes"});
  Hdf5Writer(path()).add_raw("x", std::string(20, 'x'),
                             {.shape = {4}, .chunk = {4}, .with = H5Pset_fletcher32});
  expect_refused({"wrong checksum"});
}

TEST_F(Hdf5, RefusesFilesCutOffAnywhereAndOtherFiles) {
  write(ramp(30), {.shape = {10, 3}, .chunk = {3, 3}});
  const std::string text = read_text(path());
  for (std::size_t size = 0; size < text.size(); size += 7) {
    write_text(path(), text.substr(0, size));
    expect_refused({path().string()});
  }
  write_text(path(), "\x93NUMPY and more");
  expect_refused({"file signature not found", "give an HDF5 file"});
  expect_error(ErrorCode::io, {"nothing"}, [&] { Hdf5File(folder_ / "nothing"); });
}

TEST_F(Hdf5, GivesAnArrayOrAnErrorForAnyWrongByte) {
  write(ramp(30), {.shape = {10, 3}, .chunk = {3, 3}, .with = [](hid_t creation) {
                     H5Pset_shuffle(creation);
                     H5Pset_deflate(creation, 6);
                     H5Pset_fletcher32(creation);
                   }});
  const std::string text = read_text(path());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ (i % 2 == 0 ? 0x01 : 0xff));
    write_text(path(), changed);
    try {
      const Hdf5File file(path());
      if (file.contains("x")) (void)file.read("x");
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace troupe

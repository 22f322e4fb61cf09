#include "runtime/file/zarr.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::read_text;
using test::write_text;
using testing::Each;
using testing::ElementsAre;

const fs::path golden = TROUPE_SOURCE_DIR "/tests/golden/arrays";

constexpr const char* plain_2 =
    R"({"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<f4", "fill_value": 0,
        "order": "C", "filters": null, "compressor": null})";
constexpr const char* plain_3 =
    R"({"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const auto at = text.find(part);
  EXPECT_NE(at, text.npos) << part;
  return text.replace(at, part.size(), by);
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// A folder with the one array x, of four f32 in two chunks.
class Zarr : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const fs::path path = folder_ / ("x/" + file);
    fs::create_directories(path.parent_path());
    write_text(path, text);
  }
  void write_2(const std::string& part = "4", const std::string& by = "4") const {
    write(".zarray", replaced(plain_2, part, by));
  }
  void write_3(const std::string& part = "4", const std::string& by = "4") const {
    write("zarr.json", replaced(plain_3, part, by));
  }
  Tensor read(const std::string& name = "x") const { return ZarrFolder(folder_.path()).read(name); }
  void expect_refused(const std::vector<std::string>& parts, const std::string& name = "x") const {
    expect_error(ErrorCode::bad_file, parts, [&] { read(name); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(Zarr, OfPythonIsReadInBothFormats) {
  for (const char* name : {"format_2.zarr", "format_3.zarr"}) {
    SCOPED_TRACE(name);
    const ZarrFolder folder(golden / name);
    EXPECT_THAT(folder.names(), ElementsAre("x_test", "x_train", "y_test", "y_train"));
    const Tensor x = folder.read("x_train");
    EXPECT_EQ(x.shape(), (Shape{10, 2, 3}));
    EXPECT_EQ(x.dtype(), DType::f32);
    EXPECT_THAT(x.elements<float>(), testing::ElementsAreArray(ramp(60)));
    EXPECT_THAT(folder.read("y_train").elements<std::int64_t>(),
                ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0));
  }
}

TEST_F(Zarr, OfPythonIsReadInEachCompression) {
  std::vector<std::uint16_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), std::uint16_t{0});
  for (const auto& [name, count] : {std::pair{"codecs_2.zarr", 9}, {"codecs_3.zarr", 10}}) {
    const ZarrFolder folder(golden / name);
    EXPECT_THAT(folder.names(), testing::SizeIs(count));
    for (const std::string& array : folder.names()) {
      const Tensor read = folder.read(array);
      EXPECT_EQ(read.shape(), (Shape{100, 10}));
      EXPECT_THAT(read.elements<std::uint16_t>(), testing::ElementsAreArray(numbers)) << array;
    }
  }
}

TEST_F(Zarr, HoldsIntegersAndNumbersOfAllSizes) {
  const auto expect_type = [&](const std::string& dtype, DType expected) {
    write_2("<f4", dtype);
    EXPECT_EQ(ZarrFolder(folder_.path()).header("x").dtype, expected) << dtype;
  };
  for (const char* order : {"<", ">"})
    for (const auto& [name, dtype] : {std::pair{"u2", DType::u16},
                                      {"u4", DType::u32},
                                      {"u8", DType::u64},
                                      {"i2", DType::i16},
                                      {"i4", DType::i32},
                                      {"i8", DType::i64},
                                      {"f4", DType::f32},
                                      {"f8", DType::f64}})
      expect_type(std::string(order) + name, dtype);
  expect_type("|u1", DType::u8);
  expect_type("|i1", DType::i8);
}

TEST_F(Zarr, HasItsFillValueWhereAChunkHasNoFile) {
  write("0", bytes_of({1, 2}));
  for (const auto& [fill, expected] : {std::pair{"7.5", 7.5F},
                                       {"null", 0.0F},
                                       {"\"-Infinity\"", -INFINITY},
                                       {"\"Infinity\"", INFINITY},
                                       {"\"0xc1200000\"", -10.0F}}) {
    write_2("\"fill_value\": 0", std::string("\"fill_value\": ") + fill);
    EXPECT_THAT(read().elements<float>(), ElementsAre(1, 2, expected, expected)) << fill;
  }
  write_2("\"fill_value\": 0", "\"fill_value\": \"NaN\"");
  EXPECT_TRUE(std::isnan(read().elements<float>()[3]));
  fs::remove(folder_ / "x/0");
  for (const auto& [dtype, fill, expected] :
       {std::tuple{"<i8", "-5", std::int64_t{-5}}, {">i8", "9007199254740993", 9007199254740993}}) {
    write(".zarray", replaced(replaced(plain_2, "<f4", dtype), "\"fill_value\": 0",
                              std::string("\"fill_value\": ") + fill));
    EXPECT_THAT(read().elements<std::int64_t>(), Each(expected));
  }
}

// Clones of git-annex and DVC have such links until their files are fetched.
TEST_F(Zarr, DoesNotTakeALinkToNothingForAMissingChunk) {
  write("0", bytes_of({1, 2}));
  write_2();
  fs::create_symlink("nowhere", folder_ / "x/1");
  expect_error(ErrorCode::io, {"fetch the file that the link", "x/1'"}, [&] { (void)read(); });
  fs::remove(folder_ / "x/1");
  EXPECT_THAT(read().elements<float>(), ElementsAre(1, 2, 0, 0));
  write_3();
  fs::create_symlink("nowhere", folder_ / "x/c");
  expect_error(ErrorCode::io, {"fetch the file that the link", "x/c'"}, [&] { (void)read(); });
}

TEST_F(Zarr, RefusesFillValuesOfOtherTypes) {
  for (const char* fill : {"\"nan\"", "\"0x00\"", "\"0x0000000g\"", "true", "[0]", "{}"}) {
    write_2("\"fill_value\": 0", std::string("\"fill_value\": ") + fill);
    expect_refused({"its fill value", "is no f32"});
  }
  for (const auto& [dtype, fill] : {std::pair{"|u1", "256"},
                                    {"|u1", "-1"},
                                    {"<i8", "9223372036854775808"},
                                    {"<i4", "0.5"},
                                    {"<i4", "\"NaN\""}}) {
    write(".zarray", replaced(replaced(plain_2, "<f4", dtype), "\"fill_value\": 0",
                              std::string("\"fill_value\": ") + fill));
    expect_refused({"its fill value"});
  }
}

TEST_F(Zarr, GivesRowsToManyThreads) {
  const auto rows = ZarrFolder(golden / "format_3.zarr").chunked("x_train");
  ASSERT_NE(rows, nullptr);
  ASSERT_EQ(rows->row_bytes(), 24U);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int row = t; row < 10; ++row) {
        std::array<float, 6> values{};
        rows->read_row(row, std::as_writable_bytes(std::span(values)));
        EXPECT_EQ(values[5], static_cast<float>(6 * row + 5));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(Zarr, IsFoundInGroupsAndNotOutsideItsFolder) {
  fs::create_directories(folder_ / "in/g");
  write_3();
  write("c/0", bytes_of({1, 2}));
  write_text(folder_ / "in/g/zarr.json", R"({"zarr_format": 3, "node_type": "group"})");
  fs::create_directory_symlink(folder_ / "x", folder_ / "in/g/x");
  const ZarrFolder folder(folder_ / "in");
  EXPECT_THAT(folder.names(), ElementsAre("g"));
  EXPECT_TRUE(folder.contains("g/x"));
  EXPECT_EQ(folder.read("g/x").elements<float>()[1], 2);
  for (const std::string& none :
       {std::string(), std::string("/"), std::string("x"), std::string("../x"),
        std::string("g/../../x"), std::string("g/"), std::string("g//x"), std::string("./g"),
        std::string("g/x/c"), (folder_ / "x").string(), std::string("g\0x", 3)}) {
    EXPECT_FALSE(folder.contains(none)) << none;
    expect_error(ErrorCode::bad_file, {"it does not exist"}, [&] { (void)folder.read(none); });
  }
  fs::create_directories(folder_ / "in/old");
  write_text(folder_ / "in/old/.zgroup", R"({"zarr_format": 2})");
  EXPECT_THAT(folder.names(), ElementsAre("g", "old"));
  for (const char* group : {"g", "old"})
    expect_error(ErrorCode::bad_file, {group, "it is a group"},
                 [&] { (void)folder.header(group); });
}

TEST_F(Zarr, RefusesFoldersWithoutArrays) {
  const auto refuse = [&](const std::string& name, const std::string& part) {
    fs::create_directories(folder_ / name);
    expect_error(ErrorCode::bad_file, {name, part}, [&] { ZarrFolder(folder_ / name); });
  };
  refuse("empty", "has no zarr arrays");
  write_2();
  refuse("x", "the folder above the arrays");
  expect_error(ErrorCode::io, {"nothing"}, [&] { ZarrFolder(folder_ / "nothing"); });
}

TEST_F(Zarr, RefusesSamplesOfWhichNoChunkIsThere) {
  write_3();
  EXPECT_THAT(read().elements<float>(), Each(0));  // targets may be
  expect_error(ErrorCode::bad_file, {"no file of its chunks is there"},
               [&] { (void)ZarrFolder(folder_.path()).chunked("x"); });
  write_3("\"shape\": [4]", "\"shape\": [0]");
  EXPECT_EQ(ZarrFolder(folder_.path()).chunked("x"), nullptr);
  EXPECT_EQ(read().shape(), (Shape{0}));
}

TEST_F(Zarr, HasNoChunksWithoutAFileOfAChunkKey) {
  const auto chunked = [&] { (void)ZarrFolder(folder_.path()).chunked("x"); };
  const auto refuse = [&] {
    expect_error(ErrorCode::bad_file, {"no file of its chunks is there"}, chunked);
  };
  write_2("[4], \"chunks\": [2]", "[4, 4], \"chunks\": [2, 2]");
  for (const char* other : {"README", "0", "0.2", "0.00", "0.0.0", "0.-0", "0.0x", "0.0.part",
                            "9999999999999999999.0", "1/1", "c/0/0"})
    write(other, "");
  fs::create_directories(folder_ / "x/1.0");
  refuse();
  write("1.1", bytes_of({1, 2, 3, 4}));
  EXPECT_NO_THROW(chunked());
  fs::remove_all(folder_ / "x");

  write_2("[4], \"chunks\": [2]", "[4, 4], \"dimension_separator\": \"/\", \"chunks\": [2, 2]");
  for (const char* empty : {"0", "1/1"}) fs::create_directories(folder_ / "x" / empty);
  for (const char* other : {"0.0", "1/README", "c/0/0"}) write(other, "");
  refuse();
  write("1/0", bytes_of({1, 2, 3, 4}));
  EXPECT_NO_THROW(chunked());
  fs::remove_all(folder_ / "x");

  write_3(
      "[4], \"data_type\": \"float32\",\n        \"chunk_grid\": {\"name\": \"regular\", "
      "\"configuration\": {\"chunk_shape\": [2]",
      "[4, 4], \"data_type\": \"float32\", "
      "\"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [2, 2]");
  for (const char* empty : {"c/0", "c/1/1", "0/0"}) fs::create_directories(folder_ / "x" / empty);
  for (const char* other : {"c/README", "c/2/0", "c/0/2", "c/00/0", "1/1"}) write(other, "");
  refuse();
  write("c/1/0", bytes_of({1, 2, 3, 4}));
  EXPECT_NO_THROW(chunked());
  fs::remove_all(folder_ / "x/c");
  fs::create_symlink("nowhere", folder_ / "x/c");
  EXPECT_NO_THROW(chunked()) << "reading names the link";
}

TEST_F(Zarr, RefusesWhatItDoesNotRead) {
  const auto refuse_2 = [&](const std::string& part, const std::string& by,
                            const std::vector<std::string>& words) {
    write_2(part, by);
    expect_refused(words);
  };
  for (const char* dtype : {"\"<M8[ns]\"", "\"|b1\"", "\"f4\"", "\"\"", "\"=f4\"", "\"|f4\"",
                            "[[\"a\", \"<f4\"]]", "3", "\"|O\""})
    refuse_2("\"<f4\"", dtype, {"its dtype is"});
  refuse_2("\"filters\": null", R"("filters": [{"id": "delta"}])", {"filters", "delta"});
  refuse_2("\"compressor\": null", R"("compressor": {"id": "lzma"})", {"codec 'lzma'"});
  refuse_2("\"compressor\": null", R"("compressor": 5)", {"a JSON object is expected"});
  refuse_2("\"order\"", R"("dimension_separator": "..", "order")", {"separator of chunk keys"});
  refuse_2("\"zarr_format\": 2", "\"zarr_format\": 1", {"its format is 1"});
  write(".zarray",
        replaced(replaced(replaced(plain_2, "[4]", "[4, 4]"), "[2]", "[2, 2]"), "\"C\"", "\"F\""));
  expect_refused({"its order is", "write it again in the order C"});
  const auto refuse_3 = [&](const std::string& part, const std::string& by,
                            const std::vector<std::string>& words) {
    write_3(part, by);
    expect_refused(words);
  };
  refuse_3("\"float32\"", "\"complex64\"", {"its data_type is", "complex64"});
  refuse_3("\"float32\"", R"({"name": "numpy.datetime64"})", {"its data_type is", "datetime64"});
  refuse_3("[{\"name\": \"bytes\"", R"([{"name": "transpose"}, {"name": "bytes")",
           {"codec 'transpose'", "in the order C"});
  refuse_3("\"bytes\"", "\"sharding_indexed\"", {"sharding_indexed", "without shards"});
  refuse_3("}}]", R"(}}, "numcodecs.lz4"])", {"numcodecs.lz4"});
  refuse_3("}}]", R"(}}, "gzip", "gzip", "gzip", "gzip", "gzip"])", {"its list of codecs"});
  refuse_3("\"little\"", "\"middle\"", {"its byte order is"});
  refuse_3("\"configuration\": {\"endian\": \"little\"}", "\"configuration\": {}",
           {"its byte order is"});
  refuse_3("\"regular\"", "\"rectilinear\"", {"its chunk_grid is 'rectilinear'"});
  refuse_3("\"default\"", "\"hilbert\"", {"its chunk_key_encoding is", "hilbert"});
  refuse_3("\"fill_value\"", R"("storage_transformers": ["x"], "fill_value")",
           {"storage_transformers"});
  refuse_3("\"fill_value\"", R"("more": {"must_understand": true}, "fill_value")", {"'more'"});
  write_3("\"fill_value\"", R"("more": {"must_understand": false}, "fill_value")");
  EXPECT_EQ(read().element_count(), 4);
}

TEST_F(Zarr, RefusesSizesBeforeItAllocates) {
  const auto refuse = [&](const std::string& shape, const std::string& chunks,
                          const std::string& part) {
    write(".zarray", replaced(replaced(plain_2, "[4]", shape), "[2]", chunks));
    expect_refused({part});
  };
  refuse("[4294967296, 4294967296]", "[1, 1]", "too large at axis 1");
  refuse("[18446744073709551615]", "[1]", "negative or too large");
  refuse("[-4]", "[1]", "non-negative integers");
  refuse("[4.5]", "[1]", "non-negative integers");
  refuse("[1e400]", "[1]", "not valid JSON");
  refuse("[4]", "[0]", "its chunks have no or more than 268435456 bytes");
  refuse("[4]", "[67108865]", "its chunks have no or more");
  refuse("[4]", "[4611686018427387904]", "its chunks have no or more");
  refuse("[4, 4]", "[2]", "it has 2 axes, but its chunks 1");
  refuse("[]", "[]", "it has 0 axes");
  refuse("[1, 1, 1, 1, 1, 1, 1]", "[1, 1, 1, 1, 1, 1, 1]", "it has 7 axes");
  refuse("[72057594037927936]", "[67108864]", "but this host has a memory of");
}

TEST_F(Zarr, RefusesMetadataThatAreNoObjectOrTooDeepOrTooLarge) {
  for (const char* file : {".zarray", "zarr.json"}) {
    for (const std::string& text :
         {std::string(), std::string("[]"), std::string("{}"), std::string("{\"zarr_format\": 2"),
          std::string(100'000, '['), "{\"a\":" + std::string(100'000, '[')}) {
      write(file, text);
      expect_refused({"x in"});
    }
    fs::remove(folder_ / (std::string("x/") + file));
  }
  write(".zarray", plain_2 + std::string(std::size_t{1} << 24, ' '));
  expect_refused({"its metadata have 16777"});
}

TEST_F(Zarr, RefusesChunksOfAnotherSize) {
  write_2();
  for (const std::size_t count : {0U, 1U, 3U}) {
    write("1", bytes_of(ramp(count)));
    expect_refused({"chunk 1 of x in"});
  }
  write("1", std::string(100'000, '\0'));
  expect_refused({"8 bytes are stored in a file of 100000"});
  fs::remove(folder_ / "x/1");
  fs::create_directory(folder_ / "x/1");
  expect_error(ErrorCode::io, {"it is a folder"}, [&] { read(); });
}

class ZarrChunk : public Zarr {
 protected:
  void compress_with(const std::string& id) const {
    write_2("\"compressor\": null", R"("compressor": {"id": ")" + id + "\"}");
  }
  /// Puts the chunk of a golden array with 2000 bytes where one of 8 is.
  void put_larger(const std::string& array) const {
    fs::copy_file(golden / "codecs_2.zarr" / array / "0.0", folder_ / "x/0",
                  fs::copy_options::overwrite_existing);
  }
};

TEST_F(ZarrChunk, ThatUnpacksToAnotherSizeIsRefused) {
  for (const char* codec : {"zlib", "gzip", "zstd", "blosc"}) {
    compress_with(codec);
    put_larger(codec == std::string("blosc") ? "blosc_lz4" : codec);
    expect_refused({"chunk 0 of x in"});
    write("0", "text");
    expect_refused({"chunk 0 of x in", codec, "do not unpack to at most 8 bytes"});
  }
}

TEST_F(ZarrChunk, OfManyBytesInFewIsRefused) {
  const std::string zeros(1 << 20, '\0');
  std::string zlib(compressBound(zeros.size()), '\0');
  uLongf size = zlib.size();
  compress(reinterpret_cast<Bytef*>(zlib.data()), &size,
           reinterpret_cast<const Bytef*>(zeros.data()), zeros.size());
  zlib.resize(size);
  compress_with("zlib");
  write("0", zlib);
  expect_refused({"chunk 0 of x in"});
  std::string zstd(ZSTD_compressBound(zeros.size()), '\0');
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), zeros.data(), zeros.size(), 3));
  compress_with("zstd");
  write("0", zstd);
  expect_refused({"zstd data do not unpack to at most 8 bytes"});
}

TEST_F(ZarrChunk, WithAWrongChecksumIsRefused) {
  fs::remove_all(folder_ / "x");
  fs::copy(golden / "codecs_3.zarr/crc32c", folder_ / "x", fs::copy_options::recursive);
  EXPECT_EQ(read().elements<std::uint16_t>()[999], 999);
  std::string chunk = read_text(folder_ / "x/c/0/0");
  chunk[500] = static_cast<char>(chunk[500] ^ 1);
  write("c/0/0", chunk);
  expect_refused({"chunk c/0/0 of x in", "wrong checksum"});
  write("c/0/0", "abc");
  expect_refused({"ends within its checksum"});
}

// Whatever byte of a chunk or of the metadata is wrong: an array or an error.
TEST_F(ZarrChunk, GivesAnArrayOrAnErrorForAnyWrongByteAndAnyLength) {
  const auto try_to_read = [&] {
    try {
      (void)read();
    } catch (const Error&) {
    }
  };
  for (const auto& [array, key] : {std::pair{"codecs_2.zarr/blosc_zstd", "0.0"},
                                   {"codecs_2.zarr/blosc_lz4", "0.0"},
                                   {"codecs_2.zarr/blosc_zlib", "0.0"},
                                   {"codecs_2.zarr/zlib", "0.0"},
                                   {"codecs_3.zarr/zstd_crc32c", "c/0/0"},
                                   {"codecs_3.zarr/gzip", "zarr.json"}}) {
    fs::remove_all(folder_ / "x");
    fs::copy(golden / array, folder_ / "x", fs::copy_options::recursive);
    const std::string text = read_text(golden / array / key);
    for (std::size_t i = 0; i < text.size(); i += i < 64 ? 1 : 7) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (i % 2 == 0 ? 0x01 : 0xff));
      write(key, changed);
      try_to_read();
      write(key, text.substr(0, i));
      try_to_read();
    }
  }
}

}  // namespace
}  // namespace troupe

#include "runtime/file/npz.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/world/memory_limit.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

using test::expect_error;
using test::MadeMember;
using test::npy_file;
using test::npy_of;
using test::write_text;
using test::zip_of;
using testing::ElementsAre;

const std::string array = npy_of<float>("<f4", "(2, 3)", {0, 1, 2, 3, 4, 5});

class Npz : public testing::Test {
 protected:
  void write(const std::string& text) const { write_text(path(), text); }
  std::filesystem::path path() const { return folder_ / "a.npz"; }
  Tensor read(const std::string& name = "a.npy") const { return NpzArchive(path()).read(name); }
  void expect_refused(const MadeMember& member, const std::vector<std::string>& parts) const {
    write(zip_of({member}));
    expect_error(ErrorCode::bad_file, parts, [&] { read(); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(Npz, HoldsStoredAndDeflatedArrays) {
  write(zip_of({{"a.npy", array}, {"b.npy", array, true}}));
  const NpzArchive archive(path());
  EXPECT_THAT(archive.names(), ElementsAre("a.npy", "b.npy"));
  EXPECT_TRUE(archive.contains("b.npy"));
  EXPECT_FALSE(archive.contains("c.npy"));
  for (const char* name : {"a.npy", "b.npy"}) {
    EXPECT_EQ(archive.read(name).shape(), (Shape{2, 3}));
    EXPECT_THAT(archive.read(name).elements<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST_F(Npz, OfNumpyIsRead) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const NpzArchive archive(std::string(TROUPE_SOURCE_DIR "/tests/golden/arrays/") + name);
    EXPECT_EQ(archive.read("x_train.npy").shape(), (Shape{10, 2, 3}));
    EXPECT_THAT(archive.read("y_test.npy").elements<std::int64_t>(), ElementsAre(0, 2));
  }
}

TEST_F(Npz, OutlivesItsArchive) {
  write(zip_of({{"a.npy", array, true}}));
  const Tensor tensor = read();
  std::filesystem::remove(path());
  EXPECT_EQ(tensor.elements<float>()[5], 5);
}

TEST_F(Npz, NamesTheArraysThatAreThere) {
  write(zip_of({{"a.npy", array}, {"b.npy", array}}));
  expect_error(ErrorCode::bad_file, {"has no c.npy", "a.npy, b.npy"}, [&] { read("c.npy"); });
}

TEST_F(Npz, RefusesWrongChecksums) {
  expect_refused({.name = "a.npy", .content = array, .crc = 1}, {"a.npy in", "CRC"});
  expect_refused({.name = "a.npy", .content = array, .deflated = true, .crc = 1}, {"CRC"});
}

TEST_F(Npz, RefusesSizesThatAreNotTheArrays) {
  for (const bool deflated : {false, true})
    for (const std::int64_t size :
         {std::int64_t{0}, std::int64_t{100}, std::int64_t{151}, std::int64_t{153},
          std::int64_t{1} << 31, std::int64_t{1} << 40})
      expect_refused({.name = "a.npy", .content = array, .deflated = deflated, .size = size}, {});
}

TEST_F(Npz, RefusesAnArrayLargerThanTheHostBeforeItUnpacksIt) {
  const std::string header =
      npy_file("{'descr': '|u1', 'fortran_order': False, 'shape': (1125899906842624,), }", "");
  expect_refused({.name = "a.npy",
                  .content = header + std::string(100'000, '\0'),
                  .deflated = true,
                  .size = (std::int64_t{1} << 50) + static_cast<std::int64_t>(header.size())},
                 {" has a memory of"});
}

TEST_F(Npz, HeadersAreReadWithoutTheElements) {
  const std::string large = npy_of<double>("<f8", "(20000,)", std::vector<double>(20'000));
  // Whoever unpacks all of them meets the wrong checksum.
  write(zip_of({{.name = "a.npy", .content = large, .deflated = true, .crc = 1},
                {.name = "b.npy", .content = large, .crc = 1}}));
  const NpzArchive archive(path());
  const auto headers = archive.headers({"a.npy", "b.npy"});
  ASSERT_EQ(headers.size(), 2u);
  for (const TensorInfo& header : headers) {
    EXPECT_EQ(header.shape, Shape{20'000});
    EXPECT_EQ(header.dtype, DType::f64);
  }
  expect_error(ErrorCode::bad_file, {"CRC"}, [&] { (void)archive.read("a.npy"); });
}

// What is unpacked gives the checksum's error, so any other comes before.
TEST_F(Npz, RefusesASizeThatIsNotThatOfItsHeaderBeforeItUnpacksIt) {
  const std::string zeros(1'000'000, '\0');
  for (const char* shape : {"(3,)", "(999999,)", "(1000001,)", "(1099511627776,)"})
    expect_refused(
        {.name = "a.npy",
         .content = npy_file(
             std::string("{'descr': '|u1', 'fortran_order': False, 'shape': ") + shape + ", }",
             zeros),
         .deflated = true,
         .crc = 1},
        {"its header states", "but 1000000 bytes follow"});
}

TEST_F(Npz, UnpacksNoMoreThanItsHeadersStateIfBothLie) {
  const std::string dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
  const std::string honest = npy_file(dictionary, "abc");
  for (const std::size_t data : {0U, 2U, 4U, 1'000'000U})
    expect_refused({.name = "a.npy",
                    .content = npy_file(dictionary, std::string(data, '\0')),
                    .deflated = true,
                    .size = static_cast<std::int64_t>(honest.size())},
                   {"its packed data do not give 131 bytes"});
}

TEST_F(Npz, RefusesArraysThatTogetherExceedTheHost) {
  const auto memory = static_cast<std::int64_t>(memory_limit().bytes);
  const std::string header = npy_file(
      fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", memory / 2), "");
  const std::int64_t size = memory / 2 + static_cast<std::int64_t>(header.size());
  const std::string packed = header + std::string(100'000, '\0');
  write(zip_of({{.name = "a.npy", .content = packed, .deflated = true, .size = size},
                {.name = "b.npy", .content = packed, .deflated = true, .size = size}}));
  const NpzArchive archive(path());
  EXPECT_EQ(archive.headers({"b.npy"}).size(), 1u);
  expect_error(ErrorCode::bad_file, {"b.npy in", "of others", " has a memory of"}, [&] {
    (void)archive.headers({"a.npy", "b.npy"});
  });
}

TEST_F(Npz, RefusesHeadersLongerThanThoseOfNumbers) {
  std::string dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
  dictionary += std::string(70'000, ' ');
  expect_refused({.name = "a.npy", .content = npy_file(dictionary, "a", 2), .deflated = true},
                 {"its header has 70", "more than one of an array of numbers"});
}

TEST_F(Npz, RefusesShapesWhoseSizeOverflows) {
  expect_refused({.name = "a.npy",
                  .content = npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': "
                                      "(4611686018427387904,), }",
                                      "")},
                 {"its header is invalid"});
}

TEST_F(Npz, RefusesEncryptedMembersAndOtherMethods) {
  expect_refused({.name = "a.npy", .content = array, .flags = 1}, {"a.npy"});
  expect_refused({.name = "a.npy", .content = array, .method = 12}, {"method 12"});
}

TEST_F(Npz, RefusesMembersThatOverlap) {
  std::string text = zip_of({{"a.npy", array}, {"b.npy", array}});
  // The second entry of the directory refers to the header of the first member.
  const auto second = text.rfind("PK\1\2");
  text.replace(second + 42, 4, 4, '\0');
  write(text);
  expect_error(ErrorCode::bad_file, {}, [&] { read("b.npy"); });
}

TEST_F(Npz, RefusesFilesCutOffAnywhereAndOtherFiles) {
  const std::string text = zip_of({{"a.npy", array}, {"b.npy", array, true}});
  for (std::size_t size = 0; size < text.size(); size += 3) {
    write(text.substr(0, size));
    expect_error(ErrorCode::bad_file, {path().string()}, [&] { read(); });
  }
  write(array);
  expect_error(ErrorCode::bad_file, {"numpy.savez"}, [&] { read(); });
  expect_error(ErrorCode::io, {"nothing"}, [&] { NpzArchive(folder_ / "nothing"); });
}

TEST_F(Npz, GivesAnArrayOrAnErrorForAnyWrongByte) {
  const std::string text = zip_of({{"a.npy", array, true}, {"b.npy", array}});
  for (std::size_t i = 0; i < text.size(); ++i)
    for (const char wrong : {'\0', '\xff', static_cast<char>(text[i] ^ 1)}) {
      std::string changed = text;
      changed[i] = wrong;
      write(changed);
      try {
        const NpzArchive archive(path());
        for (const std::string& name : archive.names())
          EXPECT_EQ(archive.read(name).bytes(), 24u) << i;
      } catch (const Error&) {
      }
    }
}

}  // namespace
}  // namespace troupe

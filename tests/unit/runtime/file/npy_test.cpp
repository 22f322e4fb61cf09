#include "runtime/file/npy.h"

#include "runtime/file/file.h"
#include "support.h"
#include "tests/unit/runtime/file/npy_text.h"

namespace troupe {
namespace {

using test::expect_error;
using test::npy_file;
using test::npy_of;

Tensor parse(const std::string& text) {
  const auto kept = std::make_shared<const std::string>(text);
  return parse_npy(as_bytes(*kept), kept, "some.npy");
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  expect_error(ErrorCode::bad_file, parts, [&] { (void)parse(text); });
}

std::string dictionary(const std::string& type, const std::string& shape) {
  return "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + ", }";
}

const std::string six = npy_of<float>("<f4", "(2, 3)", {0, 1, 2, 3, 4, 5});

TEST(NpyReader, ReadsWhatNumPyWrites) {
  // numpy.save of numpy.array([[1, 2], [3, 4]], dtype=numpy.int16)
  std::string saved = std::string("\x93NUMPY\x01\x00v\x00", 10) +
                      "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }";
  saved += std::string(128 - 1 - saved.size(), ' ') + "\n" + std::string("\1\0\2\0\3\0\4\0", 8);
  const Tensor tensor = parse(saved);
  EXPECT_EQ(tensor.dtype(), DType::i16);
  EXPECT_EQ(tensor.shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor.elements<std::int16_t>()[3], 4);
}

TEST(NpyReader, ReadsEveryVersion) {
  for (const char version : {1, 2, 3}) {
    const Tensor tensor =
        parse(npy_file(dictionary("'|u1'", "(2, 1, 2)"), std::string("\1\2\3\4"), version));
    EXPECT_EQ(tensor.shape(), (Shape{2, 1, 2}));
    EXPECT_EQ(tensor.elements<std::uint8_t>()[2], 3);
  }
}

TEST(NpyReader, ReadsEveryTypeOfNumbers) {
  const std::pair<const char*, DType> types[] = {
      {"|u1", DType::u8},  {"<u2", DType::u16}, {"<u4", DType::u32}, {"<u8", DType::u64},
      {"|i1", DType::i8},  {"<i2", DType::i16}, {"<i4", DType::i32}, {"<i8", DType::i64},
      {"<f2", DType::f16}, {"<f4", DType::f32}, {"<f8", DType::f64}, {"|b1", DType::boolean}};
  for (const auto& [name, type] : types) {
    const std::string data(3 * size_of(type), '\1');
    EXPECT_EQ(parse(npy_file(dictionary("'" + std::string(name) + "'", "(3,)"), data)).dtype(),
              type);
  }
}

TEST(NpyReader, ReadsNumbersThatAreNotAligned) {
  const std::string header = dictionary("'<f4'", "(2, 3)");
  std::string text = std::string("\x93NUMPY\1\0", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  const Tensor tensor = parse(text + header + six.substr(six.size() - 24));
  EXPECT_EQ(tensor.elements<float>()[5], 5.0F);
}

TEST(NpyReader, ReadsScalarsAndEmptyArrays) {
  EXPECT_EQ(parse(npy_of<float>("<f4", "()", {7})).shape(), Shape{});
  EXPECT_EQ(parse(npy_of<float>("<f4", "(0, 28)", {})).element_count(), 0);
}

TEST(NpyReader, TakesFortransOrderWhereItIsThatOfC) {
  EXPECT_EQ(
      parse(npy_file("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 1), }", "abc")).shape(),
      (Shape{3, 1}));
  expect_refused(npy_file("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2), }", "abcdef"),
                 {"Fortran's order", "numpy.ascontiguousarray"});
}

TEST(NpyReader, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < six.size(); ++size)
    expect_refused(six.substr(0, size), {"some.npy"});
  expect_refused(six + "x", {"25 bytes follow"});
}

TEST(NpyReader, RefusesOtherTypes) {
  expect_refused(npy_file(dictionary("'>f4'", "(1,)"), "abcd"), {"big-endian (>f4)"});
  expect_refused(npy_file(dictionary("'|O'", "(1,)"), "abcd"), {"type '|O'"});
  expect_refused(npy_file(dictionary("'<c8'", "(1,)"), "abcdefgh"), {"type '<c8'"});
  expect_refused(npy_file(dictionary("'<U3'", "(1,)"), "abcd"), {"type '<U3'"});
  expect_refused(npy_file(dictionary("''", "(1,)"), "abcd"), {"type ''"});
  expect_refused(npy_file(dictionary("[('a', '<f4')]", "(1,)"), "abcd"), {"structures"});
}

TEST(NpyReader, RefusesDamagedHeaders) {
  expect_refused("PK\3\4", {"does not begin with"});
  expect_refused(std::string("\x93NUMPY\x09\0\0\0", 10), {"version 9"});
  expect_refused(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12),
                 {"its header has 4294967295 bytes"});
  expect_refused(std::string("\x93NUMPY\1\0\xff\0", 10), {"255 bytes, but 0"});
  for (const char* text :
       {"", "{", "{}", "{'descr'}", "{'descr': '<f4'}", "{'shape': (1,), 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} more",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'other': 1}"})
    expect_refused(npy_file(text, "abcd"), {"not understood"});
}

TEST(NpyReader, RefusesAbsurdShapes) {
  expect_refused(npy_file(dictionary("'<f4'", "(-1,)"), "abcd"), {"header is invalid"});
  expect_refused(npy_file(dictionary("'<f8'", "(9223372036854775807,)"), "abcdefgh"), {"some.npy"});
  expect_refused(npy_file(dictionary("'<f8'", "(4611686018427387904, 4)"), "abcdefgh"),
                 {"header is invalid"});
  expect_refused(npy_file(dictionary("'<f8'", "(99999999999999999999,)"), ""), {"not understood"});
  expect_refused(npy_file(dictionary("'<f4'", "(1, 1, 1, 1, 1, 1, 1)"), "abcd"), {"7 axes"});
}

TEST(NpyReader, MapsTheFile) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a.npy", std::ios::binary) << six;
  EXPECT_EQ(read_npy(folder / "a.npy").elements<float>()[4], 4.0F);
  expect_error(ErrorCode::io, {"missing.npy"}, [&] { (void)read_npy(folder / "missing.npy"); });
}

}  // namespace
}  // namespace troupe

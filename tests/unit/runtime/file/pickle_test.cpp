#include "runtime/file/pickle.h"

#include "runtime/file/file.h"
#include "support.h"

namespace troupe {
namespace {

using test::expect_error;

std::string golden(const std::string& name) {
  return test::read_text(TROUPE_SOURCE_DIR "/tests/golden/pickles/" + name + ".pickle");
}

const PickleValue& entry(const Pickle& pickle, std::string_view key) {
  const PickleValue* found = std::get<PickleDict*>(pickle.value())->find(key);
  if (found == nullptr) throw Error(ErrorCode::internal, "no entry " + std::string(key));
  return *found;
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  expect_error(ErrorCode::bad_file, parts, [&] { Pickle(as_bytes(text), "some.pickle"); });
}

std::string text_of(const PickleValue& value) {
  return std::string(std::get<std::string_view>(value));
}

/// A pickle of one array: its shape, its type and its data.
std::string array(const std::string& shape, const std::string& type, const std::string& data) {
  return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n" + shape +
         "cnumpy\ndtype\n(S'" + type + "'\nI0\nI1\ntRI00\nS'" + data + "'\ntb.";
}

class PickledBatch : public testing::TestWithParam<std::string> {};

TEST_P(PickledBatch, HasTheValuesThatPythonStored) {
  const std::string text = golden(GetParam());
  const Pickle pickle(as_bytes(text), "some.pickle");
  const auto& data = *std::get<PickleArray*>(entry(pickle, "data"));
  EXPECT_EQ(data.shape, (Shape{2, 3072}));
  EXPECT_EQ(data.type.name, "u1");
  EXPECT_FALSE(data.column_major);
  for (std::size_t i = 0; i < data.data.size(); ++i)
    ASSERT_EQ(static_cast<unsigned char>(data.data[i]), i * 7 % 251) << i;
  const auto& labels = std::get<PickleList*>(entry(pickle, "fine_labels"))->items;
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(labels[0]), 99);
  EXPECT_EQ(text_of(entry(pickle, "batch_label")), "training batch 1 of 5");
  EXPECT_EQ(text_of(std::get<PickleList*>(entry(pickle, "filenames"))->items[1]),
            "camion_s_000148.png");
}

INSTANTIATE_TEST_SUITE_P(OfPython, PickledBatch,
                         testing::Values("python2", "protocol0", "protocol2", "protocol4",
                                         "protocol5", "bytes"));

TEST(PickleReader, ReadsNumbersTextsAndNestedValues) {
  const std::string text = golden("values");
  const Pickle pickle(as_bytes(text), "some.pickle");
  EXPECT_EQ(entry(pickle, "none"), PickleValue(std::monostate{}));
  const std::vector<PickleValue> numbers = {true,
                                            false,
                                            std::int64_t{0},
                                            std::int64_t{-1},
                                            std::int64_t{255},
                                            std::int64_t{256},
                                            std::int64_t{65536},
                                            -(std::int64_t{1} << 31),
                                            std::int64_t{1} << 62,
                                            0.5,
                                            -1e300};
  EXPECT_EQ(std::get<PickleList*>(entry(pickle, "numbers"))->items, numbers);
  EXPECT_EQ(text_of(entry(pickle, "text")), "größe ☃");
  EXPECT_EQ(std::get<PickleList*>(entry(pickle, "nested"))->items.size(), 4u);
}

TEST(PickleReader, ReadsArraysOfEveryOrder) {
  const std::string text = golden("values");
  const Pickle pickle(as_bytes(text), "some.pickle");
  const auto array = [&](const char* key) { return *std::get<PickleArray*>(entry(pickle, key)); };
  EXPECT_EQ(array("doubles").type.name, "f8");
  EXPECT_TRUE(array("doubles").column_major);
  EXPECT_TRUE(array("big_endian").type.big_endian);
  EXPECT_EQ(array("big_endian").data, std::string_view("\0\0\0\1\0\0\0\2", 8));
  EXPECT_TRUE(array("column_major").column_major);
  EXPECT_EQ(array("column_major").data, std::string_view("\0\3\1\4\2\5", 6));
}

TEST(PickleReader, ReadsTheTextFormOfNumbersAndTexts) {
  const std::string text = golden("values0");
  const Pickle pickle(as_bytes(text), "some.pickle");
  const std::vector<PickleValue> numbers = {true, std::int64_t{-1}, std::int64_t{1} << 62, 0.5};
  EXPECT_EQ(std::get<PickleList*>(entry(pickle, "numbers"))->items, numbers);
  EXPECT_EQ(text_of(entry(pickle, "text")), "größe ☃\n\\");
}

TEST(PickleReader, ReadsAListThatContainsItself) {
  const std::string text("]q\0h\0a.", 7);
  const Pickle pickle(as_bytes(text), "some.pickle");
  const auto* list = std::get<PickleList*>(pickle.value());
  EXPECT_EQ(std::get<PickleList*>(list->items.at(0)), list);
}

TEST(PickleReader, ReadsListsOfAnyDepth) {
  std::string text = "]";
  for (int depth = 0; depth < 1'000'000; ++depth) text += "]";
  for (int depth = 0; depth < 1'000'000; ++depth) text += "a";
  text += ".";
  const Pickle pickle(as_bytes(text), "some.pickle");
  EXPECT_EQ(std::get<PickleList*>(pickle.value())->items.size(), 1u);
}

TEST(PickleReader, RunsNoFunctionAndNamesIt) {
  expect_refused("cos\nsystem\n(S'true'\ntR.", {"os.system", "no code is run"});
  expect_refused("cposix\nsystem\n.", {"posix.system"});
  expect_refused("c__builtin__\neval\n.", {"__builtin__.eval"});
  expect_refused("cnumpy\nload\n.", {"numpy.load"});
  expect_refused(std::string("\x80\x04\x8c\x02os\x8c\x06system\x93."), {"os.system"});
  expect_refused("c\x1b[2J\n\x07\n.", {"?[2J.?,"});
  expect_refused("(S'x'\nios\nsystem\n.", {"opcode 0x69"});
}

TEST(PickleReader, RefusesEveryPartOfAPickle) {
  for (const char* name :
       {"python2", "protocol0", "protocol2", "protocol4", "protocol5", "values"}) {
    const std::string whole = golden(name);
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 300)
      expect_refused(whole.substr(0, size), {"some.pickle"});
  }
}

TEST(PickleReader, RefusesLengthsBeyondTheFile) {
  expect_refused("T\xff\xff\xff\x7f.", {"2147483647 bytes should follow, but 1 do"});
  expect_refused(std::string("\x8e\0\0\0\0\0\1\0\0.", 10), {"1099511627776 bytes should follow"});
  expect_refused("\x96\xff\xff\xff\xff\xff\xff\xff\xff", {"bytes should follow, but 0 do"});
  expect_refused("\x8b\xff\xff\xff\xff", {"more than 8"});
}

TEST(PickleReader, KeepsAMemoOfItsSizeWhateverTheNumbers) {
  const std::string text(
      "Nr\xff\xff\xff\xff"
      "j\xff\xff\xff\xff.");
  EXPECT_NO_THROW(Pickle(as_bytes(text), "some.pickle"));
  expect_refused("h\x05.", {"no value has the number 5"});
}

TEST(PickleReader, RefusesProgramsThatDoNotFit) {
  expect_refused(".", {"empty stack"});
  expect_refused("(0a.", {"empty stack"});
  expect_refused("N(a.", {"empty stack"});
  expect_refused("e.", {"no mark"});
  expect_refused("NNa.", {"a list is not where it should be"});
  expect_refused("}(Nu.", {"a key has no value"});
  expect_refused("\x80\x06.", {"protocol is 6"});
  expect_refused("I12x\n.", {"no whole number"});
  expect_refused("I99999999999999999999\n.", {"no whole number"});
  expect_refused("S'\\xq1'\n.", {"not in its encoding"});
  expect_refused("V\\uzzzz\n.", {"not in its encoding"});
  expect_refused("cnumpy\nndarray\n)R.", {"numpy.ndarray is called"});
  expect_refused("", {"1 bytes should follow, but 0 do"});
}

TEST(PickleReader, RefusesArraysThatDoNotFitTheirData) {
  EXPECT_NO_THROW(Pickle(as_bytes(array("(I2\nI3\nt", "u1", "abcdef")), "some.pickle"));
  expect_refused(array("(I2\nI4\nt", "u1", "abcdef"), {"[2, 4]", "6 bytes"});
  expect_refused(array("(I3\nt", "f8", "abcdef"), {"[3]", "f8"});
  expect_refused(array("(I-6\nI-1\nt", "u1", "abcdef"), {"shape of an array is invalid"});
  expect_refused(array("(I4294967296\nI4294967296\nt", "u1", ""), {"shape of an array is invalid"});
  expect_refused(array("(I1\nI1\nI1\nI1\nI1\nI1\nI1\nt", "u1", "a"), {"more than 6 axes"});
  expect_refused(array("(I1\nt", "O8", "abcdefgh"), {"type 'O8'"});
}

TEST(PickleReader, RefusesATextThatIsEncodedAgainAndAgain) {
  std::string text = "c_codecs\nencode\nq";
  text += '\0';
  text += "(V" + std::string(10'000, 'a') + "\nVlatin1\ntq\x01";
  for (int time = 0; time < 1000; ++time) text += std::string("h\0h\1R0", 6);
  expect_refused(text + "N.", {"texts are larger than the file"});
}

TEST(PickleReader, RefusesTooManyOpcodes) {
  expect_refused(std::string(Pickle::most_opcodes, 'N') + ".", {"more than 4000000 opcodes"});
}

}  // namespace
}  // namespace troupe

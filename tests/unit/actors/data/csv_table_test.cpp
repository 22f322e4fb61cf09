#include "actors/data/csv_table.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "actors/data/batch_maker.h"
#include "runtime/error.h"
#include "runtime/text.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvTables : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  /// The batch of all training rows of a table, and its data set.
  std::pair<Dataset, Batch> read(const std::string& text, CsvTable table = {}) const {
    write("train.csv", text);
    table.path = folder_.path();
    Dataset data = open_dataset(table);
    std::vector<std::uint32_t> rows;
    for (std::int64_t i = 0; i < data.count(Split::train); ++i)
      rows.push_back(static_cast<std::uint32_t>(i));
    const BatchMaker maker(data, Split::train, {});
    return {data, maker.make({.samples = std::move(rows)})};
  }
  std::string refusal(const std::string& text, const CsvTable& table = {}) const {
    try {
      (void)read(text, table);
    } catch (const Error& error) {
      return error.message() + " | " + error.remedy();
    }
    return "nothing was refused";
  }

  test::TemporaryFolder folder_;
};

TEST_F(CsvTables, TakeTheLastColumnAsTheTarget) {
  const auto [data, batch] = read("a,b,y\n1,2.5,0.5\n-3e2, 4 ,1.5\n");
  EXPECT_EQ(data.samples().shape, Shape{2});
  EXPECT_EQ(data.samples().classes, 0);
  EXPECT_THAT(batch.samples.elements<float>(), ElementsAre(1, 2.5F, -300, 4));
  EXPECT_THAT(batch.targets.elements<float>(), ElementsAre(0.5F, 1.5F));
  EXPECT_EQ(data.count(Split::test), 0);
}

TEST_F(CsvTables, TakeTheColumnsThatAreNamedAsTargets) {
  const auto [data, batch] = read("y,a,z\n1,2,3\n4,5,6\n", {.target = {"z", "y"}});
  EXPECT_EQ(data.samples().target_shape, Shape{2});
  EXPECT_THAT(batch.samples.elements<float>(), ElementsAre(2, 5));
  EXPECT_THAT(batch.targets.elements<float>(), ElementsAre(1, 3, 4, 6)) << "as in the table";
  EXPECT_THAT(refusal("age,y\n1,2\n", {.target = {"agee"}}), HasSubstr("did you mean age"));
}

TEST_F(CsvTables, NumberTextsAsClassesInTheirOrder) {
  write("test.csv", "a,y\n9,ape\n");
  const auto [data, batch] = read("a,y\r\n1,cat\r\n2,\"bee, wild\"\r\n3,cat\r\n");
  EXPECT_EQ(data.samples().classes, 3) << "the test set has another one";
  EXPECT_THAT(batch.targets.elements<std::int64_t>(), ElementsAre(2, 1, 2));
}

TEST_F(CsvTables, TakeNumbersAsTextsAmongClassesThatAreTexts) {
  const std::string rows = "a,y\n+1,b\n2,3\n3,a\n";
  const auto [data, batch] = read(rows, {.targets = TargetKind::classes});
  EXPECT_THAT(batch.samples.elements<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(batch.targets.elements<std::int64_t>(), ElementsAre(2, 0, 1));
  EXPECT_THAT(refusal(rows), HasSubstr("set `Dataset::targets` to classes"));
}

TEST_F(CsvTables, KeepWholeNumbersAsClassesUnlessTheyAreNumbers) {
  const std::string text = "a,y\n1,0\n2,7\n";
  const auto [data, batch] = read(text);
  EXPECT_EQ(data.samples().classes, 8);
  EXPECT_THAT(batch.targets.elements<std::int64_t>(), ElementsAre(0, 7));
  const Batch numbers = read(text, {.targets = TargetKind::numbers}).second;
  EXPECT_THAT(numbers.targets.elements<float>(), ElementsAre(0, 7));
}

TEST_F(CsvTables, MayBeOneFileWithRowsHeldOut) {
  std::string text =
      "\xef\xbb\xbf"
      "a,y\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + ",0." + std::to_string(i) + "\n\n";
  write("all.csv", text);
  const Dataset data = open_dataset(CsvTable{.path = folder_ / "all.csv", .test_fraction = 0.25});
  EXPECT_EQ(data.count(Split::train), 15);
  EXPECT_EQ(data.count(Split::test), 5);
}

TEST_F(CsvTables, TakeNumbersNearZeroAsZero) {
  const auto [data, batch] = read("a,b,y\n1e-400,-2e-999,0\n1e-40,3,1\n");
  EXPECT_THAT(batch.samples.elements<float>(), ElementsAre(0, 0, 1e-40F, 3));
}

TEST_F(CsvTables, NameTheCellThatIsNoNumber) {
  EXPECT_THAT(
      refusal("a,b,y\n1,2,3\n1,x7,3\n"),
      testing::AllOf(HasSubstr("train.csv:3: the cell 'x7' of the column b is not a finite number"),
                     HasSubstr("remove the row or the column; only targets")));
  EXPECT_THAT(refusal("a,b,y\n1,,3\n"),
              HasSubstr("train.csv:2: the cell '' of the column b is empty"));
  for (const char* cell : {"nan", "inf", "1e999", "1.5x", "0x10", "+", "1 2"})
    EXPECT_THAT(refusal(std::string("a,b,y\n1,") + cell + ",3\n"), HasSubstr("of the column b"));
  EXPECT_THAT(refusal("a,y\n1,0.5\n2,\n"), HasSubstr("train.csv:3: the cell '' of the column y"));
  EXPECT_THAT(refusal("a,y\n1,0.5\n2,one\n"), HasSubstr("the cell 'one' of the column y"));
  EXPECT_THAT(refusal("a,y\n1,-1\n", {.targets = TargetKind::classes}),
              HasSubstr("nothing was refused"))
      << "a text like any other";
}

// Its samples would be one fewer, and its columns named by numbers.
TEST_F(CsvTables, RefuseAFirstRowOfSamples) {
  for (const char* samples : {"0.1257,3.5,setosa\n1,2,virginica\n", "1,2\n3,4\n", "5,5,a\n"})
    EXPECT_THAT(refusal(samples), HasSubstr("has a first row that looks like data")) << samples;
  EXPECT_THAT(
      refusal("0.1257,3.5,setosa\n1,2,virginica\n"),
      testing::AllOf(HasSubstr("(0.1257, …, setosa)"), HasSubstr("that names the columns")));
  EXPECT_THAT(refusal("1,a,b\n1,2,3\n", {.target = {"a", "b"}}), HasSubstr("looks like data"));
  EXPECT_EQ(refusal("x,2020,y\n1,2,3\n"), "nothing was refused");
}

TEST_F(CsvTables, NameTheirTargets) {
  const TargetNames texts = read("a,y\n1,cat\n2,bee\n").first.target_names();
  EXPECT_THAT(texts.columns, ElementsAre("y"));
  EXPECT_THAT(texts.classes, ElementsAre("bee", "cat"));
  EXPECT_THAT(read("a,y\n1,0\n2,1\n").first.target_names().classes, testing::IsEmpty());
}

TEST_F(CsvTables, RefuseWhatIsNoTable) {
  for (const char* empty : {"", "\n", "\xef\xbb\xbf"})
    EXPECT_THAT(refusal(empty), HasSubstr("train.csv is empty"));
  EXPECT_THAT(refusal("a,y\n"), HasSubstr("no rows"));
  EXPECT_THAT(refusal("a;b;y\n1;2;3\n"), testing::AllOf(HasSubstr("has one column, 'a;b;y'"),
                                                        HasSubstr("by commas, not by ;")));
  EXPECT_THAT(refusal("a,a\n1,2\n"), HasSubstr("names its column 2 'a'"));
  EXPECT_THAT(refusal("y\n1\n"), HasSubstr("no columns but the targets"));
  EXPECT_THAT(refusal("a,y\n1\n"), HasSubstr(":2: 1 cell, but the first row names 2 columns"));
  EXPECT_THAT(refusal("a,y\n1,2,3\n"), HasSubstr(":2: 3 cells, but the first row names 2 columns"));
  EXPECT_THAT(refusal("a,y\n1,\"b\n"), HasSubstr(":2: a quote does not end"));
  EXPECT_THAT(refusal("a,y\n1,\"b\"\"c\"\n"), HasSubstr(":2: a quote does not end"));
  EXPECT_THAT(refusal("a,b,y\n1,2,3\n", {.target = {"b", "y"}, .targets = TargetKind::classes}),
              HasSubstr("names 2 columns"));
  write("test.csv", "b,y\n1,2\n");
  EXPECT_THAT(refusal("a,y\n1,2\n"), HasSubstr("other columns"));
  write("test.csv", "b,z\n1,2\n");
  EXPECT_THAT(refusal("b,y\n1,2\n"), HasSubstr("other columns"));
  write("test.csv", "a,z,y\n1,2,3\n");
  EXPECT_THAT(refusal("a,y,z\n1,2,3\n", {.target = {"y", "z"}}), HasSubstr("other columns"));
  std::filesystem::remove(folder_ / "train.csv");
  try {
    (void)open_dataset(CsvTable{.path = folder_.path()});
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("which has no train.csv"));
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
}

TEST_F(CsvTables, SendNoControlCharactersToATerminal) {
  const std::string title = "\033]0;pwned\007";
  for (const std::string& text : std::vector<std::string>{
           "a,y\n" + title + ",1\n", "a,y\n1,0.5\n2," + title + "\n", title + ",a,a\n1,2,3\n",
           title + ";y\n1;2\n", "a,\xc2\x9bm,\xc2\x9bm\n1,2,3\n", "a,\xc2\x9bm,y\n1,x,3\n"}) {
    const std::string said = refusal(text);
    EXPECT_THAT(said, HasSubstr("train.csv"));
    EXPECT_EQ(printable(said, said.size()), said);
  }
  EXPECT_THAT(refusal("a,y\n" + title + ",1\n"),
              HasSubstr("the cell '?]0;pwned?' of the column a"));
  EXPECT_THAT(refusal(title + ",y\n1,2\n"), HasSubstr("control character 0x1b in its first row"));
  const std::string other = refusal("a,\xc2\x9bmy\n1,2\n", {.target = {"my"}});
  EXPECT_EQ(printable(other, other.size()), other);
}

TEST_F(CsvTables, NameColumnsInTheLettersOfAnyLanguage) {
  const std::string table = "Alter,Gr\u00f6\u00dfe,y\n1,x,3\n";
  EXPECT_THAT(refusal(table), HasSubstr("the cell 'x' of the column Gr\u00f6\u00dfe is"));
  EXPECT_THAT(refusal(table, {.target = {"Gr\u00f6se"}}),
              HasSubstr("did you mean Gr\u00f6\u00dfe?"));
}

TEST_F(CsvTables, NameOtherEncodingsAndLineEnds) {
  using namespace std::string_literals;
  for (const std::string& text : {"\xff\xfe"s + "a\0,\0y\0\n\0"s, "\xfe\xff\0a\0,\0y\0\n"s,
                                  "a\0,\0y\0\n\0001\0,\0002\0\n\0"s})
    EXPECT_THAT(refusal(text),
                testing::AllOf(HasSubstr("is UTF-16 or not text"), HasSubstr("UTF-8")));
  for (const char* text : {"a,y\r1,2\r3,4\r", "a,y\r1,2\r3,4"})
    EXPECT_THAT(refusal(text), HasSubstr("lines that end in CR alone"));
}

TEST_F(CsvTables, NameThePathThatIsMissing) {
  for (const std::filesystem::path& path : {std::filesystem::path(), folder_ / "nothing"}) {
    try {
      (void)open_dataset(CsvTable{.path = path});
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("`Dataset::path`"));
    }
  }
}

}  // namespace
}  // namespace troupe

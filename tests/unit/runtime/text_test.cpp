#include "runtime/text.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "runtime/error.h"

namespace troupe {
namespace {

TEST(Error, HasNoControlCharactersOfNamesThatFilesGive) {
  const Error error(ErrorCode::bad_file, "no tensor evil\x1b[31m\xc2\x9b",
                    "try gr\xc3\xb6\xc3\x9f\x65\r");
  EXPECT_EQ(error.message(), "no tensor evil?[31m?");
  EXPECT_EQ(error.remedy(), "try gr\xc3\xb6\xc3\x9f\x65?");
  EXPECT_STREQ(error.what(), "no tensor evil?[31m?; try gr\xc3\xb6\xc3\x9f\x65?");
}

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("trian", "train"), 1u) << "two neighbours swapped";
  EXPECT_EQ(edit_distance("abcd", "badc"), 2u);
  EXPECT_EQ(edit_distance("", "ab"), 2u);
  EXPECT_EQ(edit_distance("ab", ""), 2u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

TEST(Nearest, FindsTheNameThatWasMisspelt) {
  const std::array<std::string_view, 3> names = {"wide_resnet", "mnist_cnn", "mlp"};
  EXPECT_EQ(nearest("wide_resent", names), "wide_resnet");
  EXPECT_EQ(nearest("mnist", names), "mnist_cnn");
  EXPECT_EQ(nearest("", names), "mlp");
}

TEST(Nearest, PrefersTheFirstOfEquals) {
  const std::array<std::string_view, 2> names = {"ab", "ba"};
  EXPECT_EQ(nearest("cc", names), "ab");
}

TEST(Meant, PrefersBeginningsAndGivesNothingFarFetched) {
  const std::string_view flags[] = {"help", "nnodes", "nproc-per-node", "tee", "output"};
  EXPECT_EQ(meant("nprocs", flags), "nproc-per-node");
  const std::vector<std::string_view> optimizers = {"sgd", "adam", "adamw"};
  EXPECT_EQ(meant("AdamW", optimizers), "adamw");
  EXPECT_EQ(meant("adamW", optimizers), "adamw");
  EXPECT_EQ(meant("nproc", flags), "nproc-per-node");
  EXPECT_EQ(meant("ouptut", flags), "output");
  EXPECT_EQ(meant("hel", flags), "help");
  EXPECT_EQ(meant("hlep", flags), "help");
  for (const char* word : {"lr", "n", "nope", "", "frobnicate"}) EXPECT_EQ(meant(word, flags), "");
}

TEST(Meant, KnowsEndings) {
  const std::string_view models[] = {"wide_resnet", "mnist_cnn", "mlp"};
  EXPECT_EQ(meant("resnet", models), "wide_resnet");
  EXPECT_EQ(meant("cnn", models), "") << "too short to tell";
}

TEST(Meant, KnowsAbbreviations) {
  const std::string_view data[] = {"npy", "npz", "hdf5", "csv"};
  EXPECT_EQ(meant("h5", data), "hdf5");
  EXPECT_EQ(meant("hdf", data), "hdf5");
  EXPECT_EQ(meant("h", data), "");
  EXPECT_EQ(meant("5h", data), "");
}

TEST(DidYouMean, AsksOnlyForWhatIsNear) {
  const std::string_view names[] = {"gpipe", "1f1b", "eager_1f1b"};
  EXPECT_EQ(did_you_mean("eager", names), "did you mean eager_1f1b?");
  EXPECT_EQ(did_you_mean("eager", names, "there are three"),
            "did you mean eager_1f1b? There are three");
  EXPECT_EQ(did_you_mean("zero", names, "there are three"), "there are three");
  EXPECT_EQ(did_you_mean("zero", names), "");
}

TEST(Nearest, IsEmptyWithoutCandidates) { EXPECT_EQ(nearest("word", {}), ""); }

TEST(Printable, KeepsLettersOfAnyLanguageAndNothingThatATerminalObeys) {
  const std::string letters = "Gr\u00f6\u00dfe \u5927\u304d\u3055 \U0001f600 \u00a0~";
  EXPECT_EQ(printable(letters), letters);
  EXPECT_EQ(printable("a\x1b[31m\x7f\t\n."), "a?[31m???.");
  EXPECT_EQ(printable("a\x1b\tb\nc", 100, "\n\t"), "a?\tb\nc");
  EXPECT_EQ(printable("\xc2\x80\xc2\x9b[m\xc2\x9f"), "??[m?");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
}

// Longer forms of U+009B among them, which lenient terminals obey.
TEST(Printable, ReplacesEachByteThatIsNoPartOfUtf8) {
  EXPECT_EQ(printable("Gr\xf6\xdf."), "Gr??.");
  EXPECT_EQ(printable("\x9b\xc2"), "??");
  EXPECT_EQ(printable("\xe0\x82\x9b \xf0\x80\x82\x9b \xc1\x9b"), "??? ???? ??");
  EXPECT_EQ(printable("\xf5\x80\x80\x80\xff"), "?????");
}

TEST(Printable, EndsBetweenCharacters) {
  EXPECT_EQ(printable("a\u00f6\u00f6", 4), "a\u00f6");
  EXPECT_EQ(printable("a\u00f6\u00f6", 5), "a\u00f6\u00f6");
  EXPECT_EQ(printable("abc", 0), "");
}

TEST(Listed, CountsWhatItLeavesOut) {
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_EQ(listed(names, 1), "a and 2 more");
  EXPECT_EQ(listed(names, 2), "a, b, c");
  EXPECT_EQ(listed(names, 3), "a, b, c");
  EXPECT_EQ(listed({}, 3), "");
}

TEST(TimeInWords, HasTheUnitThatItIsReadIn) {
  using namespace std::chrono_literals;
  EXPECT_EQ(in_words(8s), "8 s");
  EXPECT_EQ(in_words(2500ms), "2.5 s");
  EXPECT_EQ(in_words(1s), "1 s");
  EXPECT_EQ(in_words(999ms), "999 ms");
  EXPECT_EQ(in_words(0ms), "0 ms");
  EXPECT_EQ(in_words(30min), "1800 s");
}

TEST(FirstDifference, IsTheFirstLineThatIsNotTheSame) {
  using Lines = std::pair<std::string, std::string>;
  EXPECT_EQ(first_difference("a\nb\nc\n", "a\nB\nC\n"), (Lines{"b", "B"}));
  EXPECT_EQ(first_difference("a\n", "a\nb\n"), (Lines{"", "b"}));
  EXPECT_EQ(first_difference("a\nb", "a"), (Lines{"b", ""}));
  EXPECT_EQ(first_difference("a\nb\n", "a\nb\n"), (Lines{"", ""}));
  EXPECT_EQ(first_difference("", ""), (Lines{"", ""}));
}

TEST(SimilarName, IsANameWithAnotherPrefixOrASlip) {
  const std::vector<std::string_view> names = {"backbone.conv1.weight", "fc.bias", "head.weight"};
  EXPECT_EQ(similar_name("conv1.weight", names), "backbone.conv1.weight");
  EXPECT_EQ(similar_name("model.fc.bias", names), "fc.bias");
  EXPECT_EQ(similar_name("haed.weight", names), "head.weight");
  EXPECT_EQ(similar_name("xfc.bias2", std::vector<std::string_view>{"other"}), "");
  EXPECT_EQ(similar_name("a", {}), "");
}

using Names = std::vector<std::string_view>;

TEST(SimilarName, IsTheOnlyNameWithTheSameEnd) {
  const Names here = {"head.weight", "head.bias"}, there = {"classifier.weight", "classifier.bias"};
  EXPECT_EQ(similar_name("head.weight", there, here), "classifier.weight");
  EXPECT_EQ(similar_name("head.bias", there, here), "classifier.bias");
  EXPECT_EQ(similar_name("classifier.bias", here, there), "head.bias");
  const Names layers = {"mlp.0.weight", "mlp.2.weight"},
              others = {"out.a.0.weight", "out.a.2.weight"};
  EXPECT_EQ(similar_name("mlp.2.weight", others, layers), "out.a.2.weight");
}

TEST(SimilarName, IsNoneOfSeveralWithTheSameEnd) {
  const Names one = {"head.weight"}, two = {"classifier.weight", "embedding.weight"};
  EXPECT_EQ(similar_name("head.weight", two, one), "");
  EXPECT_EQ(similar_name("embedding.weight", one, two), "");
  EXPECT_EQ(similar_name("head.weight", Names{"xweight", "classifier.bias"}, one), "");
}

}  // namespace
}  // namespace troupe

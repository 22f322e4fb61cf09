// The options document without any particular options: YAML, positions, overrides, fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "runtime/error.h"
#include "runtime/options/field.h"
#include "runtime/options/tree.h"

namespace troupe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    // The choices of an option say themselves what to write.
    const bool lists_choices = error.message().find("must be one of") != std::string::npos;
    EXPECT_TRUE(lists_choices || !error.remedy().empty()) << error.message();
    return error.message() + "\n" + error.remedy();
  }
  return "no error";
}
std::string refusal_of(std::string_view text) {
  return refusal([&] { parse_yaml(text, "o.yaml"); });
}

TEST(OptionYaml, KnowsWhereEveryValueStands) {
  const OptionTree root = parse_yaml("a: 1\nb:\n  c: [x, y]\n", "o.yaml");
  EXPECT_EQ(root.find("a")->where, "o.yaml:1:4");
  EXPECT_EQ(root.find("b")->find("c")->items[1].where, "o.yaml:3:10");
  EXPECT_EQ(root.find("b")->entries[0].where, "o.yaml:3:3");
  EXPECT_EQ(root.find("missing"), nullptr);
}

TEST(OptionYaml, TakesAnEmptyDocument) {
  EXPECT_EQ(parse_yaml("", "o.yaml").kind, OptionTree::Kind::null);
  EXPECT_EQ(parse_yaml("# nothing\n", "o.yaml").kind, OptionTree::Kind::null);
}

TEST(OptionYaml, RefusesWhatIsNoFileWithoutWaitingForIt) {
  std::string pattern = testing::TempDir() + "troupe_fifo_XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { read_yaml(folder / "pipe"); }),
              HasSubstr("a device or pipe, not a file"));
  EXPECT_THAT(refusal([&] { read_yaml(folder); }), HasSubstr("a folder, not a file"));
  EXPECT_THAT(refusal([&] { read_yaml(folder / "none"); }), HasSubstr("cannot be opened"));
  std::filesystem::remove_all(folder);
}

TEST(OptionYaml, RefusesWrongSyntaxWithItsPosition) {
  EXPECT_THAT(refusal_of("a: [1, 2\nb: 3\n"), HasSubstr("o.yaml:"));
  EXPECT_THAT(refusal_of("a: 1\n b: 2\n"), HasSubstr("not YAML"));
  EXPECT_THAT(refusal_of("a: \"open\n"), HasSubstr("not YAML"));
}

TEST(OptionYaml, RefusesDuplicateKeysAliasesTagsAndSecondDocuments) {
  EXPECT_THAT(refusal_of("a: 1\nb: 2\na: 3\n"), HasSubstr("o.yaml:3:1: the key a appears twice"));
  EXPECT_THAT(refusal_of("a: &x [1]\nb: *x\n"), HasSubstr("o.yaml:1:4: anchors"));
  EXPECT_THAT(refusal_of("a: !!python/object x\n"), HasSubstr("tag"));
  EXPECT_THAT(refusal_of("a: 1\n---\nb: 2\n"), HasSubstr("second YAML document"));
  EXPECT_THAT(refusal_of("[a, b]: 2\n"), HasSubstr("not a name"));
}

TEST(OptionYaml, RefusesHostileSizeAndDepth) {
  EXPECT_THAT(refusal_of(std::string(max_options_bytes + 1, 'a')), HasSubstr("larger than"));
  EXPECT_THAT(refusal_of(std::string(100000, '[')), HasSubstr("o.yaml"));
  EXPECT_THAT(refusal_of("a: " + std::string(17, '[') + std::string(17, ']')),
              HasSubstr("deeper than"));
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += std::to_string(i).append(": 1\n");
  EXPECT_THAT(refusal_of(wide), HasSubstr("more than 256 keys"));
}

TEST(OptionYaml, RefusesFilesThatCannotBeRead) {
  EXPECT_THAT(refusal([] { read_yaml("no/such/file.yaml"); }), HasSubstr("no/such/file.yaml"));
  EXPECT_THAT(refusal([] { read_yaml("/"); }), HasSubstr("folder"));
}

struct Sample {
  std::int64_t count = 4;
  double rate = 0.5;
  std::string name = "red";
  bool on = false;
  std::vector<std::int64_t> cut;
  std::uint64_t seed = 1;
  std::filesystem::path file;

  OptionFields fields() {
    return {field("seed", seed, "the seed"),
            field("part.count", count, "how many", {.at_least = 1, .at_most = 8}),
            field("part.rate", rate, "how fast", {.above = 0, .synonyms = {"speed"}}),
            field("part.name", name, "which", {.choices = {"red", "green"}}),
            field("part.on", on, "whether"),
            field("part.cut", cut, "where", {.at_least = 1, .empty_word = "auto"}),
            field("part.file", file, "from where")};
  }
  void read(std::string_view text, const std::vector<std::string>& overrides = {}) {
    OptionTree root = parse_yaml(text, "o.yaml");
    for (const auto& assignment : overrides)
      apply_override(root, assignment, "override " + assignment);
    read_fields(root, fields());
  }
};

std::string reading(std::string_view text, const std::vector<std::string>& overrides = {}) {
  Sample sample;
  return refusal([&] { sample.read(text, overrides); });
}

TEST(OptionField, WritesTheNumberZeroAsAWord) {
  int threads = 3;
  const OptionField word =
      field("threads", threads, "how many", {.at_least = 1, .at_most = 8, .empty_word = "auto"});
  EXPECT_EQ(word.type, "auto or integer from 1 to 8");
  read_fields(parse_yaml("threads: auto", "o.yaml"), {word});
  EXPECT_EQ(threads, 0);
  EXPECT_EQ(word.write(), "auto");
  read_fields(parse_yaml("threads: 5", "o.yaml"), {word});
  EXPECT_EQ(word.write(), "5");
  for (const char* wrong : {"threads: 0", "threads: 9", "threads: automatic", "threads: [2]"})
    EXPECT_THAT(refusal([&] { read_fields(parse_yaml(wrong, "o.yaml"), {word}); }),
                HasSubstr("it must be auto or integer from 1 to 8"));
}

TEST(OptionOverride, ReplacesAndAddsValuesInOrder) {
  Sample sample;
  sample.read("part: {count: 2, name: green}",
              {"part.count=3", "part.count=5", "part.cut=[1, 2]", "seed=18446744073709551615"});
  EXPECT_EQ(sample.count, 5);
  EXPECT_EQ(sample.name, "green");
  EXPECT_EQ(sample.cut, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(sample.seed, 18446744073709551615u);
}

TEST(OptionOverride, MergesMapsAndFillsAnEmptyDocument) {
  Sample sample;
  sample.read("", {"part={count: 2, rate: 3}", "part={count: 6}"});
  EXPECT_EQ(sample.count, 6);
  EXPECT_EQ(sample.rate, 3);
}

TEST(OptionOverride, NamesItselfInErrors) {
  EXPECT_THAT(reading("", {"part.rate=fast"}), HasSubstr("override part.rate=fast: part.rate"));
  EXPECT_THAT(reading("", {"part.rat=1"}), HasSubstr("did you mean part.rate?"));
}

TEST(OptionOverride, DoesNotHideThatTheDocumentIsNoMap) {
  const std::string without = reading("only a text");
  EXPECT_THAT(without, HasSubstr("o.yaml:1:1"));
  EXPECT_EQ(reading("only a text", {"part.count=3"}), without);
  EXPECT_THAT(reading("[1, 2]", {"part.count=3"}), HasSubstr("must be a map"));
}

TEST(OptionOverride, RefusesWhatIsNoAssignment) {
  for (const char* text :
       {"", "=", "a", "=1", ".a=1", "a.=1", "a..b=1", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s=1"})
    EXPECT_THAT(reading("", {text}), HasSubstr("not of the form KEY=VALUE")) << text;
  EXPECT_THAT(reading("", {"a=[1"}), HasSubstr("not YAML"));
  EXPECT_THAT(reading("- 1\n", {"part.count=2"}), testing::Not(HasSubstr("crash")));
}

TEST(OptionFields, RefuseValuesOutsideTheirLimitsAndOfOtherTypes) {
  EXPECT_THAT(reading("part: {count: 0}"),
              HasSubstr("o.yaml:1:15: part.count is 0; it must be an integer from 1 to 8"));
  EXPECT_THAT(reading("part: {count: 9}"), HasSubstr("is 9"));
  EXPECT_THAT(reading("part: {count: 1.5}"), HasSubstr("is 1.5"));
  EXPECT_THAT(reading("part: {count: 99999999999999999999}"), HasSubstr("integer"));
  EXPECT_THAT(reading("part: {count: \"4\"}"), HasSubstr("remove the quotes"));
  EXPECT_THAT(reading("part: {count: [1]}"), HasSubstr("is a list"));
  EXPECT_THAT(reading("part: {count: }"), HasSubstr("is empty"));
  EXPECT_THAT(reading("part: {rate: 0}"), HasSubstr("a number > 0"));
  EXPECT_THAT(reading("part: {rate: .nan}"), HasSubstr("number"));
  EXPECT_THAT(reading("part: {rate: inf}"), HasSubstr("number"));
  EXPECT_THAT(reading("part: {rate: nan}"), HasSubstr("number"));
  EXPECT_THAT(reading("part: {on: yes}"), HasSubstr("true or false"));
  EXPECT_THAT(reading("part: {name: grene}"), HasSubstr("did you mean green?"));
  EXPECT_THAT(reading("part: {cut: 3}"), HasSubstr("write [3]"));
  EXPECT_THAT(reading("part: {cut: [1, 0]}"), HasSubstr("an item of part.cut is 0"));
  EXPECT_THAT(reading("seed: -1"), HasSubstr("2^64"));
}

TEST(OptionFields, RefuseUnknownKeysWithTheNearestKnownOne) {
  EXPECT_THAT(reading("part:\n  cuont: 3\n"),
              HasSubstr("o.yaml:2:3: unknown key part.cuont\ndid you mean part.count?"));
  EXPECT_THAT(reading("part: {speed: 3}"), HasSubstr("did you mean part.rate?"));
  EXPECT_THAT(reading("ratee: 3"), HasSubstr("did you mean part.rate?"));
  EXPECT_THAT(reading("prt: {count: 3}"), HasSubstr("did you mean part?"));
  EXPECT_THAT(reading("sed: 3"), HasSubstr("did you mean seed?"));
  EXPECT_THAT(reading("seed: {x: 3}"), HasSubstr("seed is a map"));
  EXPECT_THAT(reading(std::string(1000, 'x') + ": 3"), HasSubstr("unknown key"));
}

TEST(OptionFields, QuoteValuesAndKeysOnOneLine) {
  EXPECT_THAT(reading("part: {name: \"a\\nb\"}"), HasSubstr("part.name is \"a?b\"; it must"));
  EXPECT_THAT(reading("part: {rate: \"\\e[2J\"}"), HasSubstr("part.rate is \"?[2J\"; it must"));
  EXPECT_THAT(reading("{\"a\\nb\": 1}"), HasSubstr("unknown key a?b\n"));
  EXPECT_THAT(reading("{\"a\\nb\": 1, \"a\\nb\": 2}"), HasSubstr("the key a?b appears twice"));
}

TEST(OptionFields, ListWhatThereIsWhereNothingNearWasMeant) {
  EXPECT_THAT(reading("part: {wheel: 3}"),
              EndsWith("unknown key part.wheel\npart has count, rate, name, on, cut, file"));
  EXPECT_THAT(reading("wheel: 3"), EndsWith("unknown key wheel\nthe keys are seed, part"));
  EXPECT_THAT(reading("cart.wheel.size: 3"), EndsWith("\nthe keys are seed, part"));
  const std::string colour = reading("part: {name: magenta}");
  EXPECT_THAT(colour, EndsWith("must be one of red, green\n"));
}

TEST(OptionFields, RefuseAScalarInPlaceOfASection) {
  EXPECT_THAT(reading("part: 3"), HasSubstr("o.yaml:1:7: part must be a map"));
  EXPECT_THAT(reading("part: 3"), EndsWith("part: {count: 3}, or in an override part.count=3"));
  EXPECT_THAT(reading("part: red"), EndsWith("part: {count: 4}, or in an override part.count=4"));
  EXPECT_THAT(reading("part: [3]"), HasSubstr("part: {count: 4}"));
  EXPECT_THAT(reading("3"), HasSubstr("the document must be a map"));
  EXPECT_THAT(reading("- 3"), HasSubstr("the document must be a map"));
}

TEST(OptionFields, WriteWhatTheyRead) {
  Sample sample;
  sample.read("part: {cut: [3, 1], rate: 1e-7, name: green, file: \"a b: \\\"c\\\"#\\n\"}");
  Sample again;
  again.read(write_fields(sample.fields()));
  EXPECT_EQ(again.cut, sample.cut);
  EXPECT_EQ(again.rate, sample.rate);
  EXPECT_EQ(again.name, "green");
  EXPECT_EQ(again.file, "a b: \"c\"#\n");
  EXPECT_EQ(write_fields(again.fields()), write_fields(sample.fields()));
}

TEST(OptionFields, WriteTheEmptyListByItsWord) {
  Sample sample;
  EXPECT_THAT(write_fields(sample.fields()), HasSubstr("cut: auto"));
  sample.read("part: {cut: auto}");
  EXPECT_TRUE(sample.cut.empty());
}

}  // namespace
}  // namespace troupe

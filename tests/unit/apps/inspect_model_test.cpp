// What `troupe inspect` prints of a model from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/file/zip.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A file of anyone's must not move the cursor or add lines.
TEST(Inspect, SendsNoControlCharactersToATerminal) {
  const test::TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__": {"k\u001b[2J": "v\n"}, "\u001b[31mGr\u00f6\u00dfe\nloss": )"
      R"({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  ASSERT_LT(header.size(), 256U);
  test::write_text(folder / "w.safetensors", bytes + header + std::string(4, '\0'));
  const Ran ran = run_troupe({"inspect", (folder / "w.safetensors").string()});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("\n?[31mGr\u00f6\u00dfe?loss "), HasSubstr("metadata k?[2J: v?\n")));
}

const std::string graphs = TROUPE_SOURCE_DIR "/tests/golden/graphs/";

TEST(InspectModel, ShowsOperatorsOfPyTorchThatAreComposed) {
  const Ran ran = run_troupe({"inspect", graphs + "draws.pt2"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("\ngroup_norm +1\n"),
                             ContainsRegex("\nleaky_relu +[12]\n"), Not(HasSubstr("affine"))));
}

/// What inspect prints of vgg.pt2 with other texts in place of some.
std::string inspected_with(const std::vector<std::pair<std::string, std::string>>& replacements) {
  const test::TemporaryFolder folder;
  const ZipArchive zip = ZipArchive::open(graphs + "vgg.pt2");
  std::vector<test::MadeMember> members;
  for (const ZipMember& member : zip.members()) {
    std::string content(zip.content(member, UINT64_MAX).text());
    for (const auto& [text, other] : replacements)
      for (std::size_t at = 0; (at = content.find(text, at)) != content.npos; at += other.size())
        content.replace(at, text.size(), other);
    members.push_back({.name = member.name, .content = content});
  }
  test::write_text(folder / "vgg.pt2", test::zip_of(members));
  const Ran ran = run_troupe({"inspect", (folder / "vgg.pt2").string()});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  return ran.out;
}
std::string inspected_with(const std::string& text, const std::string& other) {
  return inspected_with({{text, other}});
}

TEST(InspectModel, CountsOperatorsThatAreLackingAndTheirUses) {
  EXPECT_THAT(inspected_with("aten.relu", "aten.gelo"),
              HasSubstr("Troupe lacks 1 operator, used 5 times, so it cannot train"));
}

TEST(InspectModel, SaysFirstThatAModelWasExportedInEvaluationMode) {
  const std::string out = inspected_with(R"("as_bool": true)", R"("as_bool":false)");
  EXPECT_THAT(out, AllOf(HasSubstr("parameters\n\nthe model was exported in evaluation mode"),
                         HasSubstr("net.train()"), Not(HasSubstr("lack")),
                         ContainsRegex("features\\.1\\.weight [^\n]+ parameter *\n")));
}

TEST(InspectModel, AlignsNumbersAtTheRight) {
  const Ran ran = run_troupe({"inspect", graphs + "vgg.pt2"});
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("\noperator +count\n"), ContainsRegex("\nrelu +5\n")));
  const auto end_of = [&](const char* line) { return ran.out.find('\n', ran.out.find(line) + 1); };
  const auto width = [&](const char* line) { return end_of(line) - ran.out.find(line); };
  EXPECT_EQ(width("\noperator "), width("\nrelu "));
  EXPECT_EQ(width("\nblock "), width("\nfeatures.0 "));
  EXPECT_FALSE(ran.out.ends_with("\n\n"));
}

TEST(InspectModel, GivesTheRemedyOnceForSeveralOperators) {
  const std::string out = inspected_with("aten.relu", "aten.gelo");
  const std::string remedy = "docs/from-pytorch.md";
  const std::size_t first = out.find(remedy);
  ASSERT_NE(first, out.npos);
  EXPECT_EQ(out.find(remedy, first + 1), out.npos);
}

TEST(InspectModel, CountsAndMarksTheParametersOfOperatorsThatAreLacking) {
  const Ran whole = run_troupe({"inspect", graphs + "vgg.pt2"});
  const std::string refused = inspected_with("aten.conv2d", "aten.conv9d");
  const auto count = [](const std::string& out) {
    const std::size_t at = out.find(" with ");
    return out.substr(at, out.find('\n') - at);
  };
  EXPECT_EQ(count(refused), count(whole.out));
  EXPECT_THAT(
      refused,
      AllOf(ContainsRegex("features\\.0\\.weight [^\n]+ parameter \\(operator lacking\\)\n"),
            ContainsRegex("classifier\\.0\\.bias [^\n]+\\] *\n")));
}

// Of a module that the model's forward never calls.
TEST(InspectModel, TellsParametersThatNoOperatorReadsFromThoseOfMissingOperators) {
  const std::string bias = R"({"as_tensor": {"name": "p_classifier_0_bias"}}, "kind")";
  const std::string none = R"({"as_none": true}, "kind")";
  for (const auto& [target, missing, mark] :
       {std::tuple("aten.conv2d", "aten.conv2d", ""),
        std::tuple("aten.conv2d", "aten.conv9d", "parameter \\(operator lacking\\)")}) {
    const std::string out = inspected_with({{bias, none}, {target, missing}});
    EXPECT_THAT(out,
                ContainsRegex("classifier\\.0\\.bias [^\n]+ parameter that no operator reads\n"));
    EXPECT_THAT(out, ContainsRegex(std::string("features\\.0\\.weight [^\n]+\\] *") + mark + "\n"));
  }
}

TEST(InspectModel, ListsTensorsInTheOrderOfTheModule) {
  for (const char* file : {"vgg.pt2", "vgg.onnx"}) {
    const Ran ran = run_troupe({"inspect", graphs + file});
    EXPECT_THAT(ran.out, ContainsRegex("features\\.1\\.weight [^\n]+\n"
                                       "features\\.1\\.bias [^\n]+\n"
                                       "features\\.1\\.running_mean [^\n]+\n"
                                       "features\\.1\\.running_var [^\n]+\n"
                                       "features\\.1\\.num_batches_tracked +i64 [^\n]+\n"
                                       "features\\.3\\.weight "));
  }
}

}  // namespace
}  // namespace troupe

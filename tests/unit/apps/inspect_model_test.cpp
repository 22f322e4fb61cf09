// What `troupe inspect` prints of a model from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

const std::string graphs = TROUPE_SOURCE_DIR "/tests/golden/graphs/";

TEST(InspectModel, ShowsOperatorsOfPyTorchThatAreComposed) {
  const Ran ran = run_troupe({"inspect", graphs + "draws.pt2"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("\ngroup_norm +1\n"),
                             ContainsRegex("\nleaky_relu +[12]\n"), Not(HasSubstr("affine"))));
}

TEST(InspectModel, CountsOperatorsThatAreLackingAndTheirUses) {
  const test::TemporaryFolder folder;
  const ZipArchive zip = ZipArchive::open(graphs + "vgg.pt2");
  std::vector<test::MadeMember> members;
  for (const ZipMember& member : zip.members()) {
    std::string text(zip.content(member, UINT64_MAX).text());
    const std::string relu = "aten.relu";
    for (std::size_t at = 0; (at = text.find(relu, at)) != text.npos;)
      text.replace(at, relu.size(), "aten.gelo");
    members.push_back({.name = member.name, .content = text});
  }
  test::write_text(folder / "vgg.pt2", test::zip_of(members));
  const Ran ran = run_troupe({"inspect", (folder / "vgg.pt2").string()});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("Troupe lacks 1 operator, used 5 times, so it cannot train"));
}

}  // namespace
}  // namespace troupe

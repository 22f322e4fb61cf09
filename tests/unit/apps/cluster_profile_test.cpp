// Profiles of clusters: found, read, refused.
#include <gmock/gmock.h>

#include <filesystem>

#include "apps/jobscript/profile.h"
#include "tests/unit/apps/profile_folder.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ClusterProfiles : public ProfileFolder {};

TEST_F(ClusterProfiles, ReadsEveryProfileThatIsShipped) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCE_DIR "/clusters")) {
    const ClusterProfile profile = read_profile(entry.path());
    EXPECT_FALSE(profile.title.empty() || profile.site.empty() || profile.checked.empty())
        << entry.path();
    for (const auto* lines : {&profile.environment, &profile.directives, &profile.setup})
      for (const auto& line : *lines) EXPECT_FALSE(line.why.empty()) << profile.name << line.text;
    ++count;
  }
  EXPECT_GE(count, 12u);
}

TEST_F(ClusterProfiles, FindsOwnProfilesFirstAndShippedOnesByName) {
  file("small.yaml", small_profile);
  EXPECT_EQ(find_profile("small").title, "Small");
  EXPECT_EQ(find_profile((root_ / "small.yaml").string()).name, "small");
  EXPECT_EQ(find_profile("lumi").title, "LUMI (CSC)");
  EXPECT_THAT(refusal([] { find_profile("smal"); }),
              AllOf(HasSubstr("no cluster smal"), HasSubstr("did you mean small?")));
  file("lumi.yaml", small_profile);
  EXPECT_EQ(find_profile("lumi").title, "Small");
}

TEST_F(ClusterProfiles, TakesTheRestFromTheProfileItIsLike) {
  file("small.yaml", small_profile);
  file("twin.yaml", "like: small\ntitle: Twin\nenvironment: []\n");
  const ClusterProfile twin = find_profile("twin");
  EXPECT_EQ(twin.name, "twin");
  EXPECT_EQ(twin.title, "Twin");
  EXPECT_EQ(twin.partitions.size(), 4u);
  EXPECT_TRUE(twin.environment.empty());
  file("a.yaml", "like: b\n");
  file("b.yaml", "like: a\n");
  EXPECT_THAT(refusal([] { find_profile("a"); }), HasSubstr("in a circle"));
  file("c.yaml", "like: nobody\n");
  EXPECT_THAT(refusal([] { find_profile("c"); }), HasSubstr("no cluster nobody"));
}

TEST_F(ClusterProfiles, RefusesWrongProfilesWithFileLineAndRemedy) {
  const auto read = [&](const std::string& content) {
    const fs::path path = file("p.yaml", content);
    return refusal([&] { read_profile(path); });
  };
  EXPECT_THAT(read("titel: x\n"),
              AllOf(HasSubstr("p.yaml:1:1: unknown key titel"), HasSubstr("title")));
  EXPECT_THAT(read("title: x\n"), HasSubstr("needs nodes"));
  const std::string node = "nodes:\n  - {name: n, architecture: x86_64, cores: 8}\n";
  EXPECT_THAT(read(node), HasSubstr("needs partitions"));
  EXPECT_THAT(read(node + "partitions:\n  - {nodes: m, max_time: 1h}\n"),
              AllOf(HasSubstr("p.yaml:4:5"), HasSubstr("did you mean n?")));
  EXPECT_THAT(read(node + "partitions:\n  - {nodes: n, max_time: soon}\n"),
              HasSubstr("not a time"));
  EXPECT_THAT(read(node + "partitions:\n  - {nodes: n, max_tme: 1h}\n"), HasSubstr("max_time"));
  EXPECT_THAT(read("nodes:\n  - {name: n, architecture: x86, cores: 8}\n"), HasSubstr("x86_64"));
  EXPECT_THAT(read("nodes:\n  - {name: n, architecture: x86_64, cores: 8, gpus: 2}\n"),
              HasSubstr("gpu_request"));
  EXPECT_THAT(read("nodes:\n  - {name: n, architecture: x86_64, cores: 8, gpus: 2, "
                   "gpu_request: x, gpu_cores: 5}\n"),
              HasSubstr("gpu_cores to 4"));
  const std::string whole = node + "partitions:\n  - {nodes: n, max_time: 1h}\n";
  EXPECT_EQ(read(whole), "no error");
  EXPECT_THAT(read(whole + "environment:\n  - {name: 'A B', value: b}\n"),
              HasSubstr("p.yaml:6:5: \"A B\" is not a name of a variable"));
  EXPECT_THAT(read(whole + "environment:\n  - {name: 2A, value: b}\n"),
              HasSubstr("not a name of a variable"));
  EXPECT_THAT(read(node + "partitions:\n  - {name: 't$(id)', nodes: n, max_time: 1h}\n"),
              HasSubstr("\"t$(id)\" is not a name of a partition"));
  for (const char* broken : {"title: \"x\\ntouch F\"\n", "note: |\n  x\n  touch F\n",
                             "directives:\n  - {text: \"--x\\rtouch F\", why: b}\n",
                             "environment:\n  - {name: A, value: b, why: \"c\\ntouch F\"}\n"})
    EXPECT_THAT(read(whole + broken), HasSubstr("has a line break")) << broken;
  EXPECT_THAT(read("environment:\n  - {name: A, value: b, when: [gpus]}\n"),
              HasSubstr("did you mean gpu?"));
}

}  // namespace
}  // namespace troupe

#include "runtime/world/host_list.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/error.h"

namespace troupe {
namespace {

using testing::ElementsAre;

TEST(HostList, ExpandsRangesKeepingLeadingZeros) {
  EXPECT_THAT(expand_host_list("gpu[001-003,010],login1"),
              ElementsAre("gpu001", "gpu002", "gpu003", "gpu010", "login1"));
  EXPECT_THAT(expand_host_list("a[1-3,07],b"), ElementsAre("a1", "a2", "a3", "a07", "b"));
  EXPECT_THAT(expand_host_list("n[9-11]"), ElementsAre("n9", "n10", "n11"));
}

TEST(HostList, ExpandsSeveralBracketsAndTextBehindThem) {
  EXPECT_THAT(expand_host_list("r[1-2]n[01-02].x"),
              ElementsAre("r1n01.x", "r1n02.x", "r2n01.x", "r2n02.x"));
}

TEST(HostList, KeepsOrderAndHostsNamedTwice) {
  EXPECT_THAT(expand_host_list("b,a,b"), ElementsAre("b", "a", "b"));
}

TEST(HostList, RefusesWhatIsNoHostList) {
  for (const char* list : {"", ",", "a,,b", "a[1-2", "a1-2]", "a[[1]]", "a[]", "a[1-]", "a[-1]",
                           "a[2-1]", "a[x-y]", "a[1-99999999999]", "a b", "a[1-2],",
                           "a[1-300]b[1-300]", "a[0-4294967295]", "[a]", "a[1--2]", "a[+1]"})
    EXPECT_THROW(expand_host_list(list), Error) << list;
}

TEST(HostList, AgreesWithScontrol) {
  if (std::system("command -v scontrol >/dev/null 2>&1") != 0) GTEST_SKIP() << "no scontrol here";
  for (const std::string list : {"gpu[001-003,010],login1", "a[1-3,07],b", "r[1-2]n[01-03]", "x",
                                 "n[08-11],n[1-2]", "b,a,b"}) {
    // scontrol wants a configuration to start at all; it reads no more of it than that.
    const std::string command =
        "conf=$(mktemp) && printf 'ClusterName=c\\nSlurmctldHost=localhost\\nNodeName=localhost\\n"
        "PartitionName=p Nodes=ALL\\n' > $conf && SLURM_CONF=$conf timeout 20 scontrol show "
        "hostnames '" +
        list + "' 2>&1; rm -f $conf";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string printed, expected;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) printed += static_cast<char>(c);
    ::pclose(pipe);
    for (const auto& host : expand_host_list(list)) expected += host + "\n";
    EXPECT_EQ(printed, expected) << list;
  }
}

TEST(TaskCounts, ExpandsRepeatedCounts) {
  EXPECT_THAT(expand_task_counts("3,1"), ElementsAre(3, 1));
  EXPECT_THAT(expand_task_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_task_counts("4"), ElementsAre(4));
}

TEST(TaskCounts, RefusesAnythingElse) {
  for (const char* counts : {"", "0", "-1", "2(x0)", "2(x3", "2(3)", "2x3", "1,,1", "1,", "(x2)",
                             "2(x99999999)", "2 (x3)", "2(x3)1", "99999999999"})
    EXPECT_THROW(expand_task_counts(counts), Error) << counts;
}

}  // namespace
}  // namespace troupe

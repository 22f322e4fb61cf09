// Times as Slurm and people write them.
#include "apps/jobscript/slurm_time.h"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(SlurmTime, ReadsWhatSlurmReadsAndWhatPeopleWrite) {
  EXPECT_EQ(parse_slurm_time("30"), minutes(30));
  EXPECT_EQ(parse_slurm_time("1:30"), seconds(90));
  EXPECT_EQ(parse_slurm_time("2:00:00"), hours(2));
  EXPECT_EQ(parse_slurm_time("1-12"), hours(36));
  EXPECT_EQ(parse_slurm_time("1-0:30"), hours(24) + minutes(30));
  EXPECT_EQ(parse_slurm_time("3-00:00:00"), hours(72));
  EXPECT_EQ(parse_slurm_time("90m"), minutes(90));
  EXPECT_EQ(parse_slurm_time("1d12h"), hours(36));
  for (const char* wrong : {"", "0", "2:", ":2", "1:2:3:4", "-3", "1-", "2h1d", "2 h", "x", "1h1h",
                            "99999999999999999999", "367d", "1.5h"})
    EXPECT_EQ(parse_slurm_time(wrong), std::nullopt) << wrong;
}

TEST(SlurmTime, WritesDaysOnlyWhereThereAreSome) {
  EXPECT_EQ(slurm_time(minutes(90)), "01:30:00");
  EXPECT_EQ(slurm_time(hours(60) + seconds(5)), "2-12:00:05");
}

}  // namespace
}  // namespace troupe

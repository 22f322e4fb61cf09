#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/doctor/network.h"
#include "tests/unit/apps/ran.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Pairs = std::vector<ProcessPair>;

PairSpeed speed(int from, int to, double message, double rate, double largest = 1e9) {
  return {.pair = {from, to},
          .transport = "Gloo",
          .message_time = message,
          .tensor_time = 2e-5,
          .rates = {rate, rate, rate, largest},
          .interface = "eth0"};
}

TEST(DoctorNetwork, MeasuresARingAndFirstOfAllBetweenHosts) {
  EXPECT_EQ(pairs_to_measure({"a"}, 16), Pairs());
  EXPECT_EQ(pairs_to_measure({"a", "a"}, 16), (Pairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(pairs_to_measure({"a", "a", "b", "b"}, 16), (Pairs{{0, 1}, {1, 2}, {2, 3}, {3, 0}}));
  EXPECT_EQ(pairs_to_measure({"a", "a", "b", "b"}, 2), (Pairs{{1, 2}, {3, 0}}));
  const std::vector<std::string> hosts{"a", "b", "c", "d", "e", "f", "g", "h"};
  EXPECT_EQ(pairs_to_measure(hosts, 4), (Pairs{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(DoctorNetwork, FlagsAPairThatIsMuchSlowerThanTheOthers) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  std::vector<PairSpeed> speeds{speed(0, 1, 1e-4, 1e9), speed(1, 2, 1.5e-4, 6e8),
                                speed(2, 3, 1e-3, 1e9), speed(3, 0, 1e-4, 1e8, 0)};
  const Findings findings = slow_pairs(speeds, names);
  ASSERT_EQ(findings.size(), 2);
  EXPECT_EQ(findings[0].message,
            "messages from rank 2 on c to rank 3 on d: 1000 µs; the median of Gloo is 150 µs");
  EXPECT_EQ(findings[1].message,
            "tensors of 16 MiB from rank 3 on d to rank 0 on a: 0.10 GB/s; the median of Gloo is "
            "0.60 GB/s");
  EXPECT_THAT(findings[1].remedy, HasSubstr("parallel.interface"));
}

TEST(DoctorNetwork, ComparesPairsOfOneTransportOnly) {
  const std::vector<std::string> names{"a", "a", "b"};
  std::vector<PairSpeed> speeds{speed(0, 1, 1e-5, 1e10), speed(1, 2, 1e-4, 1e9),
                                speed(2, 0, 1e-4, 1e9)};
  EXPECT_EQ(slow_pairs(speeds, names).size(), 0);
  speeds[0].transport = "shared memory";
  speeds[2].message_time = 1;
  EXPECT_EQ(slow_pairs(speeds, names).size(), 0);
}

TEST(DoctorNetwork, ShowsEachPairAndWhatTakesTooLong) {
  const std::string table = speed_table({speed(0, 1, 1e-4, 1e9, 0)}, {"a", "node7"});
  EXPECT_THAT(table, AllOf(HasSubstr("a to node7"), HasSubstr("64 MiB GB/s\n"),
                           HasSubstr("100.0      20.0    1.00    1.00    1.00       -\n")));
}

TEST(DoctorNetwork, SaysHowToStartSeveralProcesses) {
  const Ran ran = run_troupe({"doctor", "--network"});
  EXPECT_EQ(ran.code, exit_usage);
  EXPECT_THAT(ran.error, AllOf(HasSubstr("launch --standalone --nproc-per-node 2 -- doctor"),
                               HasSubstr("srun ")));
}

}  // namespace
}  // namespace troupe

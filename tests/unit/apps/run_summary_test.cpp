// The sentence under the time table: what it says of runs whose figures are plain, and when it
// says nothing.
#include "apps/output/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "apps/output/process_usage.h"

namespace troupe {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds wall{100};

/// An actor that computed and waited for input and credits so many of the hundred seconds.
ActorReport actor(const char* name, int compute, int no_input, int no_credit) {
  ActorReport report{.name = name};
  report.time.compute = std::chrono::seconds(compute);
  report.time.no_input = std::chrono::seconds(no_input);
  report.time.no_credit = std::chrono::seconds(no_credit);
  report.time.other = wall - report.time.compute - report.time.no_input - report.time.no_credit;
  return report;
}

RunReport run_of(std::vector<ActorReport> actors) {
  RunReport report;
  report.actors = std::move(actors);
  report.wall = wall;
  return report;
}

RunShape two_stages() {
  return {.micro_batches = 4,
          .batch_size = 64,
          .actor_threads = 2,
          .idle_cores = 0,
          .workers = 1,
          .partition = {3, 9},
          .partition_by_hand = false};
}

TEST(RunSummary, NamesTheBottleneckAndTheShareOfComputing) {
  const auto report =
      run_of({actor("loader", 5, 0, 95), actor("stage/0", 58, 0, 29), actor("stage/1", 78, 20, 1)});
  EXPECT_THAT(run_summary(report, two_stages()),
              HasSubstr("stages computed 68 % of the time; the bottleneck is stage/1 with 78 %"));
}

TEST(RunSummary, NamesNoBottleneckWhereStagesTakeTurnsOnTheThreads) {
  const auto report =
      run_of({actor("loader", 5, 0, 95), actor("stage/0", 34, 30, 20), actor("stage/1", 49, 30, 1),
              actor("stage/2", 48, 30, 1), actor("stage/3", 52, 20, 1)});
  RunShape shape = two_stages();
  shape.partition = {3, 3, 3, 3};
  EXPECT_EQ(run_summary(report, shape),
            "stages computed 46 % of the time\n4 stages share 2 actor threads: more cores would "
            "make them faster");
  shape.actor_threads = 4;
  EXPECT_THAT(run_summary(report, shape), Not(HasSubstr("share")));
}

TEST(RunSummary, SaysHowLongThePipelineBubbleIs) {
  const auto report =
      run_of({actor("loader", 5, 0, 95), actor("stage/0", 68, 0, 29), actor("stage/1", 70, 20, 1)});
  EXPECT_THAT(run_summary(report, two_stages()),
              testing::EndsWith("of the time\nthe pipeline bubble is 20 % of a step; "
                                "train.micro_batches=8 makes it 11 %\n"
                                "(batch norm then averages over 8 samples)"));
  RunShape plain = two_stages();
  plain.batch_norms = false;
  EXPECT_THAT(run_summary(report, plain), testing::EndsWith("makes it 11 %"));
  RunShape split = two_stages();
  split.schedule = ScheduleKind::zero_bubble_h1;
  EXPECT_THAT(run_summary(report, split), Not(HasSubstr("bubble"))) << "8 % is not worth a word";
  RunShape smallest = two_stages();
  smallest.batch_size = 4;
  smallest.batch_norms = false;
  EXPECT_THAT(run_summary(report, smallest), Not(HasSubstr("train.micro_batches")));
}

TEST(RunSummary, LeavesBatchNormEnoughSamples) {
  const auto report =
      run_of({actor("loader", 5, 0, 95), actor("stage/0", 68, 0, 29), actor("stage/1", 70, 20, 1)});
  RunShape shape = two_stages();
  shape.batch_size = 32;  // 4 of a micro-batch, if there were twice as many
  EXPECT_THAT(run_summary(report, shape), Not(HasSubstr("train.micro_batches")));
}

TEST(RunSummary, BlamesAPartitionByHandOnly) {
  const auto report =
      run_of({actor("loader", 5, 0, 95), actor("stage/0", 20, 0, 75), actor("stage/1", 85, 5, 1)});
  RunShape shape = two_stages();
  EXPECT_THAT(run_summary(report, shape), Not(HasSubstr("parallel.partition")));
  shape.partition_by_hand = true;
  EXPECT_THAT(run_summary(report, shape), HasSubstr("try a parallel.partition other than [3, 9]"));
}

TEST(RunSummary, GivesStagesOfOneGpuNoAdviceAboutThreadsAndBubbles) {
  const auto report =
      run_of({actor("loader", 5, 0, 95), actor("stage/0", 98, 0, 1), actor("stage/1", 97, 1, 1)});
  RunShape shape = two_stages();
  shape.actor_threads = 1;
  shape.idle_cores = 3;
  EXPECT_THAT(run_summary(report, shape), HasSubstr("parallel.actor_threads=2"));
  shape.on_gpu = true;
  EXPECT_EQ(run_summary(report, shape),
            "stages computed 98 % of the time on average; they share the GPU");
}

TEST(RunSummary, TellsASlowLoader) {
  const auto report =
      run_of({actor("loader", 5, 90, 5), actor("stage/0", 40, 55, 0), actor("stage/1", 45, 50, 1)});
  EXPECT_THAT(run_summary(report, two_stages()),
              HasSubstr("stage/0 waited for data: try data.workers=2"));
}

TEST(RunSummary, OffersThreadsOnlyWhereStagesAndCoresAreLeft) {
  const auto report =
      run_of({actor("loader", 1, 0, 99), actor("stage/0", 47, 0, 50), actor("stage/1", 50, 50, 0)});
  RunShape shape = two_stages();
  shape.actor_threads = 1;
  EXPECT_THAT(
      run_summary(report, shape),
      testing::EndsWith("\n2 stages share 1 actor thread: more cores would make them faster"));
  shape.idle_cores = 3;
  EXPECT_THAT(run_summary(report, shape), HasSubstr("try parallel.actor_threads=2"));
}

TEST(RunSummary, SaysHowManyCoresExplicitNumbersOfThreadsLeaveIdle) {
  RunShape shape = two_stages();
  shape.actor_threads = 1;
  shape.partition = {12};
  shape.unused_cores = shape.idle_cores = 3;
  const auto report = run_of({actor("loader", 1, 0, 99), actor("stage/0", 97, 1, 0)});
  EXPECT_THAT(run_summary(report, shape), testing::EndsWith("\nidle in each process: 3 cores; try "
                                                            "parallel.intra_op_threads=auto"));
}

TEST(RunSummary, CountsTheThreadsOfAllProcesses) {
  const auto report =
      run_of({actor("loader", 1, 0, 99), actor("stage/0", 20, 0, 60), actor("stage/1", 80, 20, 0)});
  RunShape shape = two_stages();
  shape.processes = 2;
  shape.actor_threads = 1;
  shape.idle_cores = 1;
  EXPECT_THAT(run_summary(report, shape), Not(HasSubstr("actor_threads")));
}

TEST(RunSummary, HasNoAdviceForAStageThatAlwaysComputes) {
  RunShape shape = two_stages();
  shape.actor_threads = 1;
  shape.partition = {12};
  const auto report = run_of({actor("loader", 1, 0, 99), actor("stage/0", 97, 1, 0)});
  EXPECT_EQ(run_summary(report, shape), "stage/0 computed 97 % of the time");
}

TEST(RunSummary, TakesTheMeanOverReplicas) {
  const auto report = run_of({actor("stage/0/0", 40, 0, 0), actor("stage/0/1", 60, 0, 0)});
  RunShape shape = two_stages();
  shape.partition = {12};
  EXPECT_THAT(run_summary(report, shape), testing::StartsWith("stage/0 computed 50 %"));
}

TEST(RunSummary, SaysNothingOfAShortRunOrOneWithoutStages) {
  auto report = run_of({actor("stage/0", 50, 0, 0)});
  report.wall = std::chrono::milliseconds(200);
  EXPECT_EQ(run_summary(report, two_stages()), "");
  EXPECT_EQ(run_summary(run_of({actor("hop", 50, 0, 0)}), two_stages()), "");
}

TEST(RunSummary, SaysWhereOtherProgramsUsedTheCores) {
  const RunReport report =
      run_of({actor("loader", 90, 0, 0), actor("stage/0", 80, 0, 0), actor("stage/1", 80, 0, 0)});
  const auto sentence = [&](int seconds, int cores) {
    return shared_cores_sentence(report, 0, std::chrono::seconds(seconds), cores);
  };
  EXPECT_THAT(sentence(40, 2), HasSubstr("includes waiting for a core"));
  EXPECT_EQ(sentence(150, 2), "");
  EXPECT_EQ(sentence(90, 1), "") << "two stages share a core with each other";
  EXPECT_THAT(sentence(40, 1), HasSubstr("other programs"));
  EXPECT_EQ(shared_cores_sentence(report, 1, std::chrono::seconds(1), 2), "") << "has no stage";
}

TEST(ProcessUsage, IsTheMeanOfARunAndThePeakOfMemory) {
  const auto mebi = [](std::int64_t count) { return count << 20; };
  const ProcessUsage before{.processor_time = std::chrono::seconds(3),
                            .peak_memory_bytes = mebi(100)};
  const ProcessUsage after{.processor_time = std::chrono::seconds(18),
                           .peak_memory_bytes = mebi(412)};
  EXPECT_EQ(usage_line(before, after, std::chrono::seconds(10), 2, ""),
            "used 1.5 of 2 cores; peak memory 412 MiB");
  EXPECT_EQ(usage_line(before, after, std::chrono::seconds(0), 1, "rank 0"),
            "rank 0 used 0.0 of 1 core; peak memory 412 MiB");
}

TEST(ProcessUsage, GrowsWithWhatThisProcessDoes) {
  const ProcessUsage before = process_usage();
  std::vector<char> memory(before.peak_memory_bytes + (std::size_t{64} << 20), 1);
  const ProcessUsage after = process_usage();
  EXPECT_EQ(memory.back(), 1);
  EXPECT_GT(after.peak_memory_bytes, before.peak_memory_bytes);
  EXPECT_GE(after.processor_time, before.processor_time);
}

}  // namespace
}  // namespace troupe

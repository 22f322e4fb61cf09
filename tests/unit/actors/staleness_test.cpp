// Asynchronous aggregation: sums that are applied some steps later, while these compute. What it
// calculates is held to a plain loop in pipeline_arithmetic_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "training_run.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::pipeline_of;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

std::function<void(PipelineOptions&)> late(std::uint32_t staleness, bool in_buckets = false) {
  return [=](PipelineOptions& pipeline) {
    pipeline.staleness = staleness;
    if (in_buckets) pipeline.bucket_cap_bytes = 1;
  };
}

const TrainingResult& reference(std::uint32_t staleness) {
  static std::map<std::uint32_t, TrainingResult> results;
  if (!results.contains(staleness))
    results[staleness] = train({.partition = {4}, .snapshot_every = 1, .adjust = late(staleness)});
  return results[staleness];
}

void expect_same(const TrainingResult& result, std::uint32_t staleness) {
  EXPECT_EQ(result.digest, reference(staleness).digest);
  EXPECT_EQ(reported(result), reported(reference(staleness)));
}

TEST(Staleness, MakesOtherWeightsThanNone) {
  EXPECT_NE(reference(1).digest, reference(0).digest);
  EXPECT_NE(reference(2).digest, reference(1).digest);
}

TEST(Staleness, IsBitwiseIdenticalForAnyPartition) {
  for (const std::uint32_t staleness : {1, 2})
    for (const std::vector<std::size_t>& partition :
         {std::vector<std::size_t>{4}, {2, 2}, {1, 1, 1, 1}})
      for (const std::uint32_t replicas : {1, 2, 3, 4})
        for (const bool in_buckets : {false, true})
          for (const std::uint64_t order : {1, 2, 3}) {
            SCOPED_TRACE(fmt::format("staleness {}, {} stages, {} replicas, order {}", staleness,
                                     partition.size(), replicas, order));
            expect_same(train({.partition = partition,
                               .replicas = replicas,
                               .schedule = order == 1   ? ScheduleKind::gpipe
                                           : order == 2 ? ScheduleKind::one_forward_one_backward
                                                        : ScheduleKind::zero_bubble_h2,
                               .order = order,
                               .adjust = late(staleness, in_buckets)}),
                        staleness);
          }
}

TEST(Staleness, MakesTheSameBitsWhereReplicasHaveNothingToDo) {
  // Batches of 9, 9 and 2 samples in 5, 5 and 2 micro-batches.
  TrainingRun odd{.partition = {4},
                  .micro_batches = 5,
                  .batch_size = 9,
                  .samples = 20,
                  .drop_last = false,
                  .adjust = late(2)};
  const TrainingResult one = train(odd);
  odd.partition = {1, 2, 1};
  for (const std::uint32_t replicas : {2, 3, 5})
    for (const std::uint64_t order : {1, 2, 3}) {
      SCOPED_TRACE(replicas);
      odd.replicas = replicas;
      odd.order = order;
      const TrainingResult result = train(odd);
      EXPECT_EQ(result.digest, one.digest);
      EXPECT_EQ(reported(result), reported(one));
    }
}

TEST(StalenessThreadedActors, MakesTheSameBits) {
  for (const int threads : {1, 2, 3})
    for (const bool in_buckets : {false, true})
      expect_same(train({.replicas = 2,
                         .workers = 1,
                         .scheduling = Scheduling::threads,
                         .threads = threads,
                         .adjust = late(2, in_buckets)}),
                  2);
}

/// Weights, momentum and statistics, in whatever order the stages wrote them.
bool same_weights(std::vector<NamedTensor> a, std::vector<NamedTensor> b) {
  std::ranges::sort(a, {}, &NamedTensor::name);
  std::ranges::sort(b, {}, &NamedTensor::name);
  return std::ranges::equal(a, b, [](const NamedTensor& x, const NamedTensor& y) {
    return x.name == y.name && x.tensor.bytes() == y.tensor.bytes() &&
           std::memcmp(x.tensor.raw(), y.tensor.raw(), x.tensor.bytes()) == 0;
  });
}

TEST(Staleness, BeginsWithStepsThatChangeNothing) {
  for (const std::uint32_t staleness : {1, 2}) {
    const auto& written = reference(staleness).written;
    ASSERT_EQ(written.size(), 6u);
    for (std::uint32_t step = 1; step < 6; ++step)
      EXPECT_EQ(same_weights(written.at(step), written.at(step + 1)), step < staleness) << step;
  }
}

TEST(Staleness, BeginsSoAgainWhereARunGoesOn) {
  const auto& before = reference(2).written.at(3);
  const TrainingResult rest = train({.partition = {1, 2, 1},
                                     .snapshot_every = 1,
                                     .adjust = late(2),
                                     .from = before,
                                     .first_step = 3});
  EXPECT_EQ(rest.steps.size(), 3u);
  EXPECT_TRUE(same_weights(rest.written.at(4), before));
  EXPECT_TRUE(same_weights(rest.written.at(5), before));
  EXPECT_FALSE(same_weights(rest.written.at(6), before));
}

TEST(Staleness, OfAdamWMakesTheSameBits) {
  const auto adamw = [](PipelineOptions& pipeline) {
    testing::use_adamw(pipeline);
    pipeline.staleness = 2;
  };
  const TrainingResult one = train({.partition = {4}, .adjust = adamw});
  for (const std::uint32_t replicas : {1, 2, 3})
    for (const std::uint64_t order : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} replicas, order {}", replicas, order));
      const TrainingResult whole =
          train({.partition = {1, 2, 1}, .replicas = replicas, .order = order, .adjust = adamw});
      EXPECT_EQ(whole.digest, one.digest);
      EXPECT_EQ(reported(whole), reported(one));
    }
  for (const char* action : {"F", "B", "U"})
    EXPECT_EQ(train({.faults = {{"stage/1", 3, 0, action}}, .adjust = adamw}).digest, one.digest)
        << action;
}

TEST(Staleness, AStageThatDiesAnywhereLeavesNoTrace) {
  for (const std::uint32_t staleness : {1, 2})
    for (const std::uint32_t step : {0, 1, 3, 5})
      for (const char* stage : {"stage/0", "stage/1"})
        for (const char* action : {"F", "B", "U"})
          for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch)
            for (const std::uint64_t order : {1, 2, 3}) {
              if (*action == 'U' && micro_batch > 0) continue;
              SCOPED_TRACE(fmt::format("staleness {}, {} {} of step {}, micro-batch {}, order {}",
                                       staleness, stage, action, step, micro_batch, order));
              const TrainingResult result =
                  train({.faults = {{stage, step, micro_batch, action}},
                         .order = order,
                         .adjust = late(staleness, micro_batch % 2 == 1)});
              ASSERT_EQ(result.failures.size(), 1u);
              EXPECT_THAT(result.failures[0].replaced, ElementsAre(stage));
              expect_same(result, staleness);
            }
}

TEST(Staleness, OtherActorsThatDieAloneLeaveNoTrace) {
  for (const auto& [actor, action] : std::vector<std::pair<const char*, const char*>>{
           {"loader", "load"}, {"loss", "L"}, {"monitor", "M"}})
    for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch)
      for (const std::uint64_t order : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} {}, order {}", actor, micro_batch, order));
        expect_same(
            train({.faults = {{actor, 2, micro_batch, action}}, .order = order, .adjust = late(1)}),
            1);
      }
}

TEST(Staleness, ARunGoesOnAfterAReducerHasDied) {
  for (const char* actor : {"reducer/0", "reducer/1"})
    for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch)
      for (const std::uint64_t order : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} {}, order {}", actor, micro_batch, order));
        const TrainingResult result =
            train({.faults = {{actor, 2, micro_batch, "R"}}, .order = order, .adjust = late(2)});
        EXPECT_EQ(result.failures.size(), 1u);
        EXPECT_EQ(result.report.steps, 6u);
        EXPECT_EQ(result.steps.size(), 6u);
      }
}

TEST(Staleness, NeedsToKnowTheMicroBatchesOfAStep) {
  try {
    Stage stage({.program = {}, .staleness = 1});
    FAIL() << "it was made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("micro-batches"));
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
  }
}

TEST(Staleness, ManyActorsMayDieInOneRun) {
  const std::vector<std::string> actors{"stage/0/0",   "stage/0/1",   "stage/1/0", "stage/1/1",
                                        "reducer/0.0", "reducer/0.1", "reducer/1", "loss/0",
                                        "loss/1",      "loader/0",    "monitor"};
  for (unsigned i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    std::mt19937 random(i);
    TrainingRun run{.replicas = 2,
                    .order = 1 + i,
                    .restarts = {.max = 10},
                    .adjust = late(1 + i % 3, /*in_buckets=*/true)};
    for (int n = 0; n < 4; ++n)
      run.faults.push_back({actors[random() % actors.size()],
                            1 + static_cast<std::uint32_t>(random() % 5),
                            static_cast<std::uint32_t>(random() % 4),
                            {}});
    const TrainingResult result = train(run);
    EXPECT_EQ(result.report.steps, 6u);
    EXPECT_EQ(result.steps.size(), 6u);
  }
}

TEST(Staleness, HasASlotForEachSumThatIsOnItsWay) {
  TrainingRun run{.replicas = 2, .adjust = late(3)};
  PipelineOptions pipeline = pipeline_of(run);
  pipeline.processes = 2;
  const Graph graph = build_pipeline(pipeline);
  int reduced = 0;
  for (std::size_t edge = 0; edge < graph.edges().size(); ++edge) {
    const std::string name = graph.edge_name(edge);
    if (name.find(".reduced ") == std::string::npos) continue;
    EXPECT_EQ(graph.edges()[edge].options.slots, 4u) << name;
    ++reduced;
  }
  EXPECT_EQ(reduced, 4);
}

}  // namespace
}  // namespace troupe

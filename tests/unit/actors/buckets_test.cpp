// Gradients in several buckets: when they leave, and what a failure between two of them leaves.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <map>

#include "program_around.h"
#include "training_run.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

void one_block_a_bucket(PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = 1; }

const TrainingResult& undisturbed() {
  static const TrainingResult result = train({});
  return result;
}

/// Throws once: when it is asked for bucket 1 the `call`-th time.
class FailsBetweenBuckets final : public testing::ProgramAround {
 public:
  FailsBetweenBuckets(std::unique_ptr<StageProgram> inner, std::shared_ptr<std::atomic<int>> calls)
      : ProgramAround(std::move(inner)), calls_(std::move(calls)) {}
  Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) override {
    if (bucket == 1 && --*calls_ == 0) throw std::runtime_error("failed between two buckets");
    return ProgramAround::backward(saved, grad, bucket);
  }

 private:
  std::shared_ptr<std::atomic<int>> calls_;
};

TEST(Buckets, AStageThatFailsBetweenTwoOfThemIsReplacedAlone) {
  for (const int call : {1, 2, 3, 4, 9, 24})
    for (const std::uint64_t order : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("call {}, order {}", call, order));
      const auto calls = std::make_shared<std::atomic<int>>(call);
      const TrainingResult result =
          train({.order = order,
                 .around =
                     [&](std::size_t stage, std::unique_ptr<StageProgram> inner) {
                       if (stage == 0)
                         inner = std::make_unique<FailsBetweenBuckets>(std::move(inner), calls);
                       return inner;
                     },
                 .adjust = one_block_a_bucket});
      ASSERT_EQ(result.failures.size(), 1u);
      EXPECT_THAT(result.failures[0].replaced, ElementsAre("stage/0"));
      EXPECT_EQ(result.digest, undisturbed().digest);
      EXPECT_EQ(reported(result), reported(undisturbed()));
    }
}

TEST(Buckets, AnyActorMayFailAnywhereAmongThem) {
  std::vector<FaultOptions> points;
  for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch)
    for (const char* actor : {"stage/0", "reducer/0.0", "reducer/0.1", "reducer/1", "loss"})
      points.push_back({actor, 2, micro_batch, {}});
  points.push_back({"stage/0", 2, 0, "U"});
  points.push_back({"stage/0", 2, 0, "collect"});
  for (const FaultOptions& fault : points)
    for (const std::uint64_t order : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} {}, order {}", fault.actor, fault.micro_batch, order));
      const TrainingResult result =
          train({.faults = {fault}, .order = order, .adjust = one_block_a_bucket});
      EXPECT_EQ(result.failures.size(), 1u);
      EXPECT_EQ(result.digest, undisturbed().digest);
      EXPECT_EQ(reported(result), reported(undisturbed()));
    }
}

/// What an actor did for each micro-batch of the second step, in order.
std::map<std::uint32_t, std::vector<TraceEvent>> events_of(const TrainingResult& result,
                                                           const std::string& actor,
                                                           std::string_view action) {
  std::map<std::uint32_t, std::vector<TraceEvent>> events;
  for (const TraceEvent& event : result.report.trace)
    if (result.report.actors[event.actor].name == actor && event.name == action &&
        event.key.step == 1)
      events[event.key.micro_batch].push_back(event);
  for (auto& [micro_batch, list] : events) std::ranges::sort(list, {}, &TraceEvent::begin);
  return events;
}

TEST(Buckets, AreReducedWhileTheirMicroBatchGoesFurtherBack) {
  const TrainingResult result =
      train({.partition = {4}, .order = 0, .trace = true, .adjust = one_block_a_bucket});
  const auto backward = events_of(result, "stage/0", "B");
  const auto first = events_of(result, "reducer/0.0", "R");
  ASSERT_EQ(backward.size(), 4u);
  for (const auto& [micro_batch, parts] : backward) {
    SCOPED_TRACE(micro_batch);
    ASSERT_EQ(parts.size(), 3u);
    ASSERT_EQ(first.at(micro_batch).size(), 1u);
    EXPECT_GE(first.at(micro_batch)[0].begin, parts[0].end);
    EXPECT_LE(first.at(micro_batch)[0].end, parts[2].begin);
  }
}

}  // namespace
}  // namespace troupe

// Stages whose parameters keep their values: nobody computes gradients for them.
#include <gmock/gmock.h>

#include <atomic>

#include "program_around.h"
#include "training_run.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::freeze_layers;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

TEST(FrozenStages, MakeTheSameBitsInAnyScheduleAndBucketsAndAfterAFailure) {
  TrainingRun run{.partition = {4}, .steps = 3, .adjust = freeze_layers};
  const TrainingResult one = train(run);
  const auto expect_the_same = [&] {
    const TrainingResult result = train(run);
    EXPECT_EQ(result.digest, one.digest);
    EXPECT_EQ(testing::reported(result), testing::reported(one));
  };
  for (const std::vector<std::size_t>& partition :
       {std::vector<std::size_t>{1, 3}, {2, 2}, {1, 1, 2}, {1, 1, 1, 1}})
    for (const auto& [name, schedule] : schedule_names)
      for (const std::size_t cap : {std::size_t{1}, SIZE_MAX}) {
        SCOPED_TRACE(::testing::Message() << name << ", " << partition.size() << " stages");
        run.partition = partition;
        run.schedule = schedule;
        run.adjust = [cap](PipelineOptions& pipeline) {
          freeze_layers(pipeline);
          pipeline.bucket_cap_bytes = cap;
        };
        expect_the_same();
      }
  run.faults = {{.actor = "stage/1", .step = 1, .micro_batch = 2}};
  expect_the_same();
}

/// Counts the gradients that a stage gets and makes.
class CountsGradients final : public testing::ProgramAround {
 public:
  struct Counts {
    std::atomic<int> got = 0, made = 0;
  };
  CountsGradients(std::unique_ptr<StageProgram> inner, Counts& counts)
      : ProgramAround(std::move(inner)), counts_(counts) {}
  Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) override {
    Backward result = ProgramAround::backward(saved, grad, bucket);
    counts_.got += grad.defined() ? 1 : 0;
    counts_.made += result.input_gradient.defined() ? 1 : 0;
    return result;
  }

 private:
  Counts& counts_;
};

TEST(FrozenStages, GetNoGradients) {
  const auto counted = [](std::vector<std::size_t> partition, bool freezes) {
    std::vector<CountsGradients::Counts> counts(partition.size());
    TrainingRun run{.partition = std::move(partition), .steps = 1, .evaluates = false};
    run.around = [&](std::size_t stage, std::unique_ptr<StageProgram> inner) {
      return std::make_unique<CountsGradients>(std::move(inner), counts[stage]);
    };
    if (freezes) run.adjust = freeze_layers;
    train(run);
    std::vector<int> result;
    for (const auto& stage : counts) result.insert(result.end(), {stage.got, stage.made});
    return result;
  };
  // Of four micro-batches, by stage: those it gets, those it makes for the stage before.
  EXPECT_THAT(counted({1, 1, 1, 1}, false), ElementsAre(4, 0, 4, 4, 4, 4, 4, 4));
  // The third block has no parameters, so the fourth is the first that is trained.
  EXPECT_THAT(counted({1, 1, 1, 1}, true), ElementsAre(0, 0, 0, 0, 0, 0, 4, 0));
  EXPECT_THAT(counted({2, 2}, true), ElementsAre(0, 0, 4, 0));
}

}  // namespace
}  // namespace troupe

// The same training in several processes, which are threads here (memory_bridge.h): the bits are
// those of one process.
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <future>

#include "../runtime/flow/memory_bridge.h"
#include "actors/checkpoint_files.h"
#include "delayed_device.h"
#include "foreign_device.h"
#include "ops/optim/sgd.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/digest.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::make_memory_links;
using testing::MemoryBridge;
using testing::pipeline_of;
using testing::TrainingRun;

class ProcessesTest : public ::testing::Test {
 protected:
  ProcessesTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("troupe_processes_" + std::to_string(::getpid()))) {}
  ~ProcessesTest() override { std::filesystem::remove_all(folder_); }

  /// Trains and returns the digest of the checkpoint that the processes wrote together.
  std::string digest(const TrainingRun& training, std::uint32_t processes, std::uint64_t order = 1,
                     std::vector<FaultOptions> faults = {}) {
    PipelineOptions pipeline = pipeline_of(training);
    pipeline.processes = processes;
    pipeline.writer = CheckpointWriterOptions{.folder = folder_};
    const Graph graph = build_pipeline(pipeline);
    RunOptions options{.threads = 2,
                       .steps = {.count = timeline_of(pipeline).steps, .snapshot_at_end = true},
                       .faults = std::move(faults),
                       .processes = processes};
    std::vector<std::future<RunReport>> runs;
    const auto links = make_memory_links(graph, processes, order);
    for (std::uint32_t here = 0; here < processes; ++here) {
      options.process = here;
      if (processes > 1) options.bridge = std::make_shared<MemoryBridge>(links, here);
      runs.push_back(
          std::async(std::launch::async, [&graph, options] { return run(graph, options); }));
    }
    for (auto& process : runs) process.wait();
    const RunReport report = runs[0].get();
    restarts_ = 0;
    for (const auto& actor : report.actors) restarts_ += actor.restarts;
    std::string result = digest_of(folder_ / checkpoint_name(report.steps));
    std::filesystem::remove_all(folder_);
    return result;
  }

  std::filesystem::path folder_;
  int restarts_ = 0;
};

TEST_F(ProcessesTest, AnyNumberOfProcessesMakesTheBitsOfOne) {
  const std::string one = digest({.partition = {4}}, 1);
  struct Case {
    std::vector<std::size_t> partition;
    std::uint32_t replicas, processes;
  };
  const std::vector<Case> cases = {{{2, 2}, 1, 2},       {{1, 1, 2}, 1, 3}, {{1, 1, 1, 1}, 1, 4},
                                   {{1, 1, 1, 1}, 1, 2}, {{4}, 2, 2},       {{4}, 4, 4},
                                   {{4}, 3, 3},          {{4}, 4, 2},       {{2, 2}, 2, 4},
                                   {{2, 2}, 2, 2},       {{1, 1, 2}, 4, 8}};
  for (const auto& [partition, replicas, processes] : cases)
    for (const std::uint64_t order : {1, 2}) {
      SCOPED_TRACE(::testing::Message()
                   << partition.size() << " stages, " << replicas << " replicas, " << processes
                   << " processes, order " << order);
      EXPECT_EQ(digest({.partition = partition, .replicas = replicas}, processes, order), one);
    }
}

TEST_F(ProcessesTest, OnADelayedDeviceMakeTheBitsOfOneOnTheCpu) {
  const std::string one = digest({.partition = {4}}, 1);
  const auto there = [](PipelineOptions& pipeline) {
    pipeline.stream.device = testing::delayed_device();
  };
  const TrainingRun run{.partition = {2, 2}, .replicas = 2, .adjust = there};
  for (const std::uint64_t seed : {1, 2, 3}) {
    const testing::DelayedWork work(seed, testing::Pace::thread);
    EXPECT_EQ(digest(run, 4, seed), one);
    EXPECT_EQ(digest(run, 2, seed, {{.actor = "stage/1/1", .step = 3, .micro_batch = 3}}), one);
    EXPECT_THAT(testing::DelayedWork::violations(), ::testing::IsEmpty()) << "seed " << seed;
  }
}

TEST_F(ProcessesTest, AnyScheduleMakesTheBitsOfOne) {
  const std::string one = digest({.partition = {4}}, 1);
  for (const auto& [name, schedule] : schedule_names)
    for (const std::uint64_t order : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << name << ", order " << order);
      EXPECT_EQ(digest({.partition = {1, 1, 2}, .schedule = schedule}, 3, order), one);
    }
}

TEST_F(ProcessesTest, TensorsOnTheDeviceThatTheirEdgeStatesMakeTheBitsOfTheCpu) {
  // Four processes: the reducers of a stage exchange their sums. One thread each, as the memory is
  // readable for all threads of a process while a kernel runs.
  const TrainingRun run{
      .partition = {2, 2}, .replicas = 2, .threads = 1, .adjust = [](PipelineOptions& p) {
        p.stream.device = testing::foreign_device();
      }};
  EXPECT_EQ(digest(run, 4), digest({.partition = {4}}, 1));
}

TEST_F(ProcessesTest, ParameterGroupsMakeTheBitsOfOne) {
  const auto groups = [](PipelineOptions& pipeline) {
    pipeline.bucket_cap_bytes = 1;  // a group has parts of several buckets
    pipeline.optimizer = pipeline.optimizer.with_groups(
        {{.parameters = {"*.bias"}, .optimizer = Sgd{.momentum = 0.9}},
         {.parameters = {"*.weight"}, .optimizer = Sgd{.weight_decay = 0.1}, .lr = 0.01}});
  };
  const std::string one = digest({.partition = {4}, .adjust = groups}, 1);
  EXPECT_NE(one, digest({.partition = {4}}, 1));
  EXPECT_EQ(digest({.partition = {2, 2}, .adjust = groups}, 2), one);
  EXPECT_EQ(digest({.partition = {1, 3}, .replicas = 2, .adjust = groups}, 4), one);
  const auto on_a_device = [&](PipelineOptions& pipeline) {
    groups(pipeline);
    pipeline.stream.device = testing::foreign_device();
  };
  EXPECT_EQ(digest({.partition = {2, 2}, .threads = 1, .adjust = on_a_device}, 1), one);
}

TEST_F(ProcessesTest, FrozenStagesMakeTheBitsOfOne) {
  const std::string one = digest({.partition = {4}, .adjust = testing::freeze_layers}, 1);
  for (const auto schedule : {ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h1})
    EXPECT_EQ(digest({.partition = {1, 1, 2},
                      .replicas = 2,
                      .schedule = schedule,
                      .adjust = testing::freeze_layers},
                     3),
              one);
}

void one_block_a_bucket(PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = 1; }

TEST_F(ProcessesTest, AdamWWithClippedGradientsMakesTheBitsOfOne) {
  const std::string one = digest({.partition = {4}, .adjust = testing::use_adamw}, 1);
  const auto in_buckets = [](PipelineOptions& pipeline) {
    testing::use_adamw(pipeline);
    one_block_a_bucket(pipeline);
  };
  EXPECT_EQ(digest({.partition = {4}, .replicas = 3, .adjust = testing::use_adamw}, 3), one);
  for (const std::uint64_t order : {1, 2})
    EXPECT_EQ(digest({.partition = {2, 2}, .replicas = 2, .adjust = in_buckets}, 4, order), one);
  EXPECT_EQ(digest({.partition = {2, 2}, .replicas = 2, .adjust = testing::use_adamw}, 4, 1,
                   {{"stage/1/1", 3, 3, "B"}}),
            one);
  const auto on_a_device = [](PipelineOptions& pipeline) {
    testing::use_adamw(pipeline);
    pipeline.stream.device = testing::foreign_device();
  };
  EXPECT_EQ(digest({.partition = {2, 2}, .threads = 1, .adjust = on_a_device}, 2), one);
}

TEST_F(ProcessesTest, ScaledLossesMakeTheBitsOfOne) {
  TrainingRun run{.partition = {4}, .steps = 9, .adjust = testing::scale_losses};
  const std::string one = digest(run, 1);
  run.replicas = 3;
  EXPECT_EQ(digest(run, 3), one);
  run.partition = {2, 2};
  run.replicas = 2;
  for (const std::uint64_t order : {1, 2}) EXPECT_EQ(digest(run, 4, order), one);
  for (const std::uint32_t step : {0u, 4u}) {  // the first is skipped
    EXPECT_EQ(digest(run, 4, 1, {{"stage/1/1", step, 3, "B"}}), one);
    EXPECT_EQ(digest(run, 4, 2, {{"gradient_norm", step, 0, "N"}}), one);
  }
  run.threads = 1;
  run.adjust = [](PipelineOptions& pipeline) {
    testing::scale_losses(pipeline);
    pipeline.stream.device = testing::foreign_device();
  };
  EXPECT_EQ(digest(run, 2), one);
  run.threads = 2;
  run.adjust = [](PipelineOptions& pipeline) {
    testing::scale_losses(pipeline);
    pipeline.stream.device = testing::delayed_device();
  };
  for (const std::uint64_t seed : {1, 2}) {
    const testing::DelayedWork work(seed, testing::Pace::thread);
    EXPECT_EQ(digest(run, 2, seed), one);
    EXPECT_THAT(testing::DelayedWork::violations(), ::testing::IsEmpty()) << "seed " << seed;
  }
}

TEST_F(ProcessesTest, AnyGradientBucketsMakeTheBitsOfOne) {
  const std::string one = digest({.partition = {4}}, 1);
  struct Case {
    std::vector<std::size_t> partition;
    std::uint32_t replicas, processes;
  };
  const std::vector<Case> cases = {{{4}, 1, 1}, {{4}, 2, 2},    {{4}, 3, 3},
                                   {{4}, 4, 2}, {{2, 2}, 2, 4}, {{2, 2}, 4, 4}};
  for (const auto& [partition, replicas, processes] : cases)
    for (const std::uint64_t order : {1, 2}) {
      SCOPED_TRACE(::testing::Message()
                   << partition.size() << " stages, " << replicas << " replicas, " << processes
                   << " processes, order " << order);
      const TrainingRun run{
          .partition = partition, .replicas = replicas, .adjust = one_block_a_bucket};
      EXPECT_EQ(digest(run, processes, order), one);
    }
}

TEST_F(ProcessesTest, SumsThatAreAppliedLaterMakeTheBitsOfOne) {
  for (const std::uint32_t staleness : {1, 2}) {
    const auto late = [staleness](PipelineOptions& pipeline) { pipeline.staleness = staleness; };
    const auto late_in_buckets = [late](PipelineOptions& pipeline) {
      late(pipeline);
      one_block_a_bucket(pipeline);
    };
    const std::string one = digest({.partition = {4}, .adjust = late}, 1);
    struct Case {
      std::vector<std::size_t> partition;
      std::uint32_t replicas, processes;
    };
    const std::vector<Case> cases = {{{4}, 2, 2}, {{4}, 3, 3},    {{4}, 4, 4},
                                     {{4}, 4, 2}, {{2, 2}, 2, 4}, {{2, 2}, 4, 8}};
    for (const auto& [partition, replicas, processes] : cases)
      for (const std::uint64_t order : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << "staleness " << staleness << ", " << partition.size() << " stages, "
                     << replicas << " replicas, " << processes << " processes, order " << order);
        TrainingRun run{.partition = partition, .replicas = replicas, .adjust = late};
        if (order == 2) run.adjust = late_in_buckets;
        EXPECT_EQ(digest(run, processes, order), one);
      }
    const TrainingRun run{.partition = {2, 2}, .replicas = 2, .adjust = late_in_buckets};
    EXPECT_EQ(digest(run, 4, 1, {{"stage/0/0", 2, 1, "B"}}), one);
    EXPECT_EQ(digest(run, 4, 2, {{"stage/1/1", 3, 3, "B"}}), one);
    // What was on its way is lost with a reducer; the run goes on.
    digest(run, 4, 1, {{"reducer/0.1/0", 2, 1, "R"}});
    EXPECT_GT(restarts_, 0);
  }
}

TEST_F(ProcessesTest, ShortBatchesLeaveSomeReplicasWithoutWork) {
  // Batches of 9, 9 and 2 samples in 5, 5 and 2 micro-batches.
  TrainingRun odd{
      .partition = {4}, .micro_batches = 5, .batch_size = 9, .samples = 20, .drop_last = false};
  const std::string one = digest(odd, 1);
  for (const std::uint32_t replicas : {2u, 3u, 4u, 5u}) {
    odd.replicas = replicas;
    EXPECT_EQ(digest(odd, replicas), one) << replicas << " replicas in processes of their own";
  }
}

TEST_F(ProcessesTest, AnActorKilledInAnyProcessLeavesNoTrace) {
  const std::string one = digest({.partition = {4}}, 1);
  struct Fault {
    const char* actor;
    std::uint32_t step, micro_batch;
  };
  for (const auto& [actor, step, micro_batch] :
       {Fault{"stage/0/0", 2, 1}, Fault{"stage/1/1", 2, 3}, Fault{"reducer/0/1", 2, 3},
        Fault{"reducer/1/0", 2, 1}, Fault{"loss/1", 2, 3}, Fault{"loader/0", 2, 1},
        Fault{"writer/2", 5, 1}, Fault{"writer", 5, 0}})
    for (const std::uint64_t order : {1, 2}) {
      const std::string whole =
          digest({.partition = {2, 2}, .replicas = 2}, 4, order, {{actor, step, micro_batch, ""}});
      EXPECT_EQ(whole, one) << actor << ", order " << order;
      EXPECT_GT(restarts_, 0) << actor;
    }
}

TEST_F(ProcessesTest, AnActorKilledBetweenBucketsLeavesNoTrace) {
  const std::string one = digest({.partition = {4}}, 1);
  const TrainingRun run{.partition = {2, 2}, .replicas = 2, .adjust = one_block_a_bucket};
  struct Fault {
    const char* actor;
    std::uint32_t step, micro_batch;
    const char* action;
  };
  for (const auto& [actor, step, micro_batch, action] :
       {Fault{"stage/0/0", 2, 1, "B"}, Fault{"stage/0/1", 2, 0, "U"},
        Fault{"reducer/0.0/1", 2, 3, "R"}, Fault{"reducer/0.1/0", 2, 1, "R"}})
    for (const std::uint64_t order : {1, 2}) {
      const std::string whole = digest(run, 4, order, {{actor, step, micro_batch, action}});
      EXPECT_EQ(whole, one) << actor << ", order " << order;
      EXPECT_GT(restarts_, 0) << actor;
    }
}

// A shard writer fails while its thread writes, and then a stage that had sent it its weights: no
// one sends them again, and the other writer waits for the shards.
TEST_F(ProcessesTest, GoOnWithTheNextCheckpointWhenOneIsLost) {
  PipelineOptions pipeline = pipeline_of({.partition = {2, 2}, .steps = 8});
  pipeline.processes = 2;
  std::promise<void> replaced;
  std::atomic<int> written = 0;
  pipeline.writer = CheckpointWriterOptions{
      .folder = folder_,
      .keep = 0,
      .write_shards = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots) {
        if (written++ == 0) replaced.get_future().wait();
        return write_snapshot_shards(folder_, step, snapshots);
      }};
  const Graph graph = build_pipeline(pipeline);
  RunOptions options{.threads = 2,
                     .steps = {.count = 8, .exact_snapshot_every = 2, .snapshot_at_end = true},
                     .faults = {{"writer/1", 1, 1, "S"}, {"stage/1", 2, 0, "F"}},
                     .processes = 2};
  std::vector<std::future<RunReport>> runs;
  const auto links = make_memory_links(graph, 2, 1);
  for (std::uint32_t here = 0; here < 2; ++here) {
    options.process = here;
    options.on_failure = nullptr;
    if (here == 0)
      options.on_failure = [&](const FailureReport& failure) {
        if (failure.actor == "stage/1") replaced.set_value();
      };
    options.bridge = std::make_shared<MemoryBridge>(links, here);
    runs.push_back(
        std::async(std::launch::async, [&graph, options] { return run(graph, options); }));
  }
  for (auto& process : runs) EXPECT_EQ(process.get().steps, 8u);
  for (const std::uint32_t step : {4, 6, 8})
    EXPECT_TRUE(std::filesystem::exists(folder_ / checkpoint_name(step))) << step;
}

}  // namespace
}  // namespace troupe

// troupe plan for runs of several processes: who lives where, and what leaves its process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "actors/data/synthetic.h"
#include "apps/plan/planned_run.h"
#include "apps/train/training.h"
#include "ops/devices.h"
#include "ops/models/models.h"
#include "runtime/text.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Plan : public testing::Test {
 protected:
  Plan() {
    std::ofstream(folder_ / "o.yaml") << R"(
model: {name: mlp, widths: [64, 32]}
data: {name: synthetic, shape: [1, 8, 8], count: 640}
train: {batch_size: 64, micro_batches: 8}
parallel: {pipeline: 2, partition: [2, 2]}
)";
  }

  Ran plan(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", (folder_ / "o.yaml").string()});
    return run_troupe(std::move(words));
  }

  /// The line that begins so, without what is aligned before the end.
  static std::string line(const Ran& planned, const std::string& begin) {
    std::istringstream lines(planned.out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(begin)) return line;
    return fmt::format("no line begins with '{}' in\n{}", begin, planned.out);
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(Plan, OfOneProcessNamesNoOther) {
  const Ran planned = plan({});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(planned.out, Not(HasSubstr("process")));
  EXPECT_THAT(line(planned, "stage/0.output → stage/1.input"), Not(HasSubstr("*")));
  EXPECT_THAT(planned.out, ContainsRegex("\nmemory bound\n  data set"));
}

TEST_F(Plan, GivesProcessesOfAHostTheirShareOfItsCores) {
  const int cores = available_cores();
  const auto threads = [&](int processes, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"--nproc-per-node", std::to_string(processes)};
    words.insert(words.end(), more.begin(), more.end());
    return line(plan(words), "1 actor thread per process");
  };
  EXPECT_THAT(threads(2), HasSubstr(counted(std::max(1, cores / 2), "thread") + " per kernel"));
  EXPECT_THAT(threads(4, {"-r", "parallel.data=2"}),
              HasSubstr(counted(std::max(1, cores / 4), "thread") + " per kernel"));
  EXPECT_THAT(threads(2, {"-r", "parallel.intra_op_threads=3"}), HasSubstr(", 3 threads per"));
  EXPECT_THAT(threads(1, {"--nnodes", "2"}), HasSubstr(counted(cores, "thread") + " per kernel"));
}

TEST_F(Plan, SaysWhichEdgesTakeNoMemory) {
  const Ran planned = plan({"-r", "train.clip_norm=1"});
  for (const char* edge : {"stage/0.snapshot", "gradient_norm.norm"})
    EXPECT_THAT(line(planned, edge), ContainsRegex(" 0 B +0 B$"));
  EXPECT_THAT(line(planned, "stage/0.gradient_squares"), ContainsRegex(" 16 B +16 B$"))
      << "of a weight and a bias";
  EXPECT_THAT(line(planned, "0 B: a few numbers"), HasSubstr("a reference to the weights"));
}

TEST_F(Plan, AddsUpEachStage) {
  const Ran planned = plan({});
  // Blocks flatten, layers.0 (64 × 64 + 64) | layers.1 (64 × 32 + 32), layers.2 (32 × 10 + 10).
  EXPECT_THAT(planned.out,
              ContainsRegex("\n1 +layers.1 +2080 .*\n +layers.2 +330 .*\n +total +2410 "));
  EXPECT_THAT(planned.out, ContainsRegex("\n +layers.0 +4160 .*\n +total +4160 "));
  EXPECT_THAT(plan({"-r", "parallel.pipeline=4", "-r", "parallel.partition=[1, 1, 1, 1]"}).out,
              Not(ContainsRegex("\n +total +[0-9]+  ")));
}

TEST_F(Plan, SaysHowLongTheRunTakesAtBest) {
  const Ran planned = plan({"-r", "train.epochs=3"});
  EXPECT_THAT(planned.out,
              ContainsRegex(
                  "\nat best [0-9]+ samples/s, and 0s for the run's 30 steps, without evaluation"));
}

TEST_F(Plan, SaysWhichActorLivesWhere) {
  const Ran planned = plan({"--nproc-per-node", "2"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(line(planned, "0           0"), HasSubstr("reducer/0 monitor writer loader stage/0"));
  EXPECT_THAT(line(planned, "1           0"), HasSubstr("reducer/1 writer/1 loss stage/1"));
}

TEST_F(Plan, MarksTheEdgesThatLeaveAProcess) {
  const Ran planned = plan({"--nproc-per-node", "2"});
  // 8 micro-batches of 8 samples of 64 numbers of 4 bytes.
  EXPECT_THAT(line(planned, "stage/0.output → stage/1.input"),
              ContainsRegex(" 2.0 KiB +16.0 KiB \\*$"));
  EXPECT_THAT(line(planned, "loader.samples → stage/0.input"), Not(HasSubstr("*")));
  EXPECT_THAT(line(planned, "loader.targets → loss.targets"), ContainsRegex(" 512 B \\*$"));
  EXPECT_THAT(line(planned, "* to another process"),
              testing::EndsWith("of the host, by shared memory: 32.7 KiB per step"));
  const Ran gloo = plan({"--nproc-per-node", "2", "-r", "parallel.transport=gloo"});
  EXPECT_THAT(line(gloo, "* to another process"), HasSubstr("of the host, by Gloo: 32.7 KiB"));
  EXPECT_THAT(planned.out, Not(HasSubstr("another host")));
  EXPECT_THAT(plan({"--nnodes", "2"}).out, Not(HasSubstr("* to another process")));
}

TEST_F(Plan, TellsHostsApart) {
  const Ran planned =
      plan({"--nnodes", "2", "--nproc", "2", "-r", "parallel.data=2", "-r", "parallel.pipeline=2"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(line(planned, "1           0"), HasSubstr("stage/0/1"));
  EXPECT_THAT(line(planned, "2           1"), HasSubstr("stage/1/0"));
  EXPECT_THAT(line(planned, "stage/0/#.output → stage/1/#.input"), testing::EndsWith(" **"));
  EXPECT_THAT(line(planned, "stage/0/#.output → stage/1/#.input"), HasSubstr(" 2×"));
  EXPECT_THAT(line(planned, "reducer/0/#.chunk → reducer/0/#.chunks"), testing::EndsWith("B *"));
  EXPECT_THAT(line(planned, "** to another host"), HasSubstr("by Gloo: 32.7 KiB per step"));
}

TEST_F(Plan, ShowsEachGradientBucket) {
  const Ran planned = plan({"-r", "parallel.bucket_cap_mb=0.001"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  // 10 x 32 and 32 x 64 weights of 4 bytes, with their biases, for 8 micro-batches.
  EXPECT_THAT(line(planned, "stage/1.gradient → reducer/1.0.gradient"),
              ContainsRegex(" 1.3 KiB +10.5 KiB$"));
  EXPECT_THAT(line(planned, "stage/1.gradient/1 → reducer/1.1.gradient"),
              ContainsRegex(" 8.1 KiB +65.0 KiB$"));
  EXPECT_THAT(line(planned, "stage/0.gradient → reducer/0.gradient"), HasSubstr("KiB"));
}

TEST_F(Plan, CountsTheSumsThatAreOnTheirWay) {
  const std::vector<std::string> late{"-r", "parallel.aggregation=asynchronous", "-r",
                                      "parallel.staleness=3"};
  const Ran planned = plan(late), now = plan({});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(planned.out,
              HasSubstr("\nasynchronous aggregation: gradients are applied 3 steps later\n"));
  EXPECT_THAT(line(planned, "reducer/0.reduced → stage/0.reduced"), ContainsRegex(" 4 +16.2 KiB"));
  EXPECT_THAT(line(now, "reducer/0.reduced → stage/0.reduced"), ContainsRegex(" 1 +16.2 KiB"));
  EXPECT_THAT(line(now, "  reducer 0 "), HasSubstr("101.6 KiB"));
  EXPECT_THAT(line(planned, "  reducer 0 "), HasSubstr("406.2 KiB"));
}

TEST_F(Plan, BoundsEachProcessBelowOneThatHoldsAll) {
  const auto bound = [](const Ran& planned) {
    std::istringstream words(line(planned, "  total"));
    std::string name, unit;
    double count = 0;
    words >> name >> count >> unit;
    EXPECT_EQ(unit, "MiB") << planned.out;
    return count;
  };
  const std::vector<std::string> wide{"-r", "model.widths=[2048,2048]"};
  auto split = wide;
  split.insert(split.end(), {"--nproc", "2"});
  const double one = bound(plan(wide)), two = bound(plan(split));
  EXPECT_LT(two, one);
  EXPECT_GT(two, one / 2);
}

TEST_F(Plan, RefusesMoreProcessesThanThereIsWorkForAsTrainDoes) {
  const Ran planned = plan({"--nnodes", "2", "--nproc-per-node", "4"});
  EXPECT_EQ(planned.code, exit_usage);
  EXPECT_THAT(planned.error,
              AllOf(HasSubstr("8 processes, but parallel.pipeline 2 × parallel.data 1"),
                    HasSubstr("-r parallel.data=4"), Not(HasSubstr("parallel.pipeline=8"))));
  EXPECT_THAT(plan({"--nproc-per-node", "4"}).error,
              HasSubstr("-r parallel.data=2, or -r parallel.pipeline=4"));
  EXPECT_THAT(plan({"--nproc-per-node", "3"}).error,
              AllOf(HasSubstr("-r parallel.pipeline=3"), Not(HasSubstr("parallel.data=2"))));
}

TEST_F(Plan, RefusesSharedMemoryBetweenHostsAsTrainDoes) {
  const Ran planned = plan({"-r", "parallel.transport=shm", "--nnodes", "2"});
  EXPECT_EQ(planned.code, exit_usage);
  EXPECT_EQ(planned.out, "");
  EXPECT_THAT(planned.error,
              AllOf(HasSubstr("is shm, but rank 0 is on host 0 and rank 1 on "
                              "host 1"),
                    HasSubstr("to auto (shared memory within a host, Gloo between hosts)")));
  EXPECT_EQ(plan({"-r", "parallel.transport=shm", "--nproc-per-node", "2"}).code, 0);
}

TEST_F(Plan, DoesNotOfferWhatNoOptionGives) {
  EXPECT_THAT(plan({"--nproc-per-node", "1000"}).error, HasSubstr("try: plan for 2\n"));
}

TEST_F(Plan, RefusesNoProcesses) {
  EXPECT_EQ(plan({"--nnodes", "0"}).code, exit_usage);
  EXPECT_EQ(plan({"--nproc-per-node", "-3"}).code, exit_usage);
}

TEST_F(Plan, BoundsTheMemoryOfAGpuThatNeedNotBeThere) {
  const Ran planned = plan({"--device", "a100-80gb"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(planned.out, HasSubstr("on cuda:0 (NVIDIA A100-SXM4-80GB, not on this host)"));
  const auto gpu = planned.out.find("\nmemory bound of the GPU\n");
  const auto cpu = planned.out.find("\nmemory bound of the CPU\n");
  ASSERT_LT(cpu, gpu) << planned.out;
  EXPECT_THAT(
      planned.out.substr(gpu),
      AllOf(HasSubstr("\n  stage 1 state "), HasSubstr("\n  reducer 0 "),
            HasSubstr("\nNVIDIA A100-SXM4-80GB has 80.0 GiB, of which the driver and CUDA take "
                      "1.5 GiB (assumed):\nthe run fits, and 78.4 GiB remain\n"),
            Not(HasSubstr("data set"))));
  EXPECT_THAT(planned.out.substr(cpu, gpu - cpu),
              AllOf(HasSubstr("\n  data set "), HasSubstr("\n  checkpoint, being written "),
                    Not(HasSubstr("\n  stage 1 state "))));
  EXPECT_THAT(planned.out, AllOf(HasSubstr("no times and no schedule"), Not(HasSubstr(" ms"))));
}

TEST_F(Plan, CountsImagesThatStayOnTheGpu) {
  const Ran planned = plan({"--device", "h100", "-r", "data.resident=true"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  const auto line = planned.out.find("\n  resident images ");
  ASSERT_NE(line, std::string::npos);
  EXPECT_GT(line, planned.out.find("memory bound of the GPU"));
  EXPECT_THAT(plan({"--device", "cpu", "-r", "data.resident=true"}).out,
              Not(HasSubstr("resident images")));
}

TEST_F(Plan, PlansForTheCpuWhereItIsAskedTo) {
  const Ran planned = plan({"--device", "cpu"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_THAT(planned.out, Not(HasSubstr("GPU")));
}

TEST_F(Plan, ReplacesTheDeviceOfTheFileByAuto) {
  const Ran planned = plan({"--device", "auto", "-r", "device=cuda"});
  EXPECT_EQ(planned.code, exit_done) << planned.error;
}

TEST_F(Plan, RefusesAnEmptyNameOfADevice) { EXPECT_EQ(plan({"--device", ""}).code, exit_usage); }

TEST_F(Plan, SaysThatItPlansForOtherGpusWhereThisHostHasNone) {
  if (find_gpu()) GTEST_SKIP() << "this host has one";
  for (const char* needs_gpu : {"device=cuda", "precision=16-mixed"})
    EXPECT_THAT(plan({"-r", needs_gpu}).error,
                HasSubstr(", or plan for a described GPU: --device h100"));
}

TEST_F(Plan, TakesTheNameOfAGpuInCapitalLetters) {
  const Ran planned = plan({"--device", "H100"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  EXPECT_EQ(planned.out, plan({"--device", "h100"}).out);
  EXPECT_EQ(plan({"--device", "A100-40GB"}).out, plan({"--device", "a100"}).out);
}

TEST_F(Plan, NamesTheGpusThatItKnows) {
  const Ran planned = plan({"--device", "h10"});
  EXPECT_EQ(planned.code, exit_usage);
  EXPECT_THAT(planned.error,
              AllOf(HasSubstr("--device h10: there is no description of this device"),
                    HasSubstr("try: a100, a100-80gb, h100, h200, gh200, b200; cpu; or auto or cuda "
                              "for the GPU of this machine. For another GPU, compare")));
}

TEST_F(Plan, CountsTheMemoryOfCudaGraphsOnAGpuOnly) {
  const auto planned = [&](const std::string& device) {
    return plan({"--device", device, "-r", "cuda_graphs=true"});
  };
  EXPECT_THAT(planned("h100").out, HasSubstr("stage 0 CUDA graphs"));
  const Ran on_cpu = planned("cpu");
  EXPECT_EQ(on_cpu.code, exit_done) << on_cpu.error;
  EXPECT_THAT(on_cpu.out, Not(HasSubstr("CUDA graphs")));
}

// A batch norm over few samples is a warning, for which the model is made as the run makes it.
TEST_F(Plan, BoundsTheMemoryOfSmallMicroBatchesInAnyPrecision) {
  for (const char* precision : {"precision=bf16-mixed", "precision=16-mixed", "precision=64-true",
                                "conv_precision=tf32", "matmul_precision=tf32"}) {
    const Ran planned = plan({"--device", "h100", "-r", precision, "-r", "train.micro_batches=16"});
    EXPECT_EQ(planned.code, exit_done) << precision << planned.error;
  }
}

TEST_F(Plan, FailsIfTheRunDoesNotFitTheGpu) {
  const Ran planned =
      plan({"--device", "a100", "-r", "data.count=100000", "-r", "train.batch_size=100000", "-r",
            "train.micro_batches=1", "-r", "model.widths=[65536, 32]"});
  EXPECT_EQ(planned.code, exit_failed);
  EXPECT_THAT(planned.out, AllOf(HasSubstr("the run does not fit: "), HasSubstr("loss.logits")));
  EXPECT_THAT(planned.error, Not(HasSubstr("error")));
}

TEST_F(Plan, NamesTheBatchesThatFit) {
  const auto planned = [&](std::int64_t batch_size, int micro_batches) {
    return plan({"--device", "a100", "-r", "data.count=100000", "-r", "model.widths=[65536, 32]",
                 "-r", fmt::format("train.batch_size={}", batch_size), "-r",
                 fmt::format("train.micro_batches={}", micro_batches)});
  };
  const std::string out = planned(100'000, 1).out;
  EXPECT_THAT(out, HasSubstr("\n  try: raise train.micro_batches from 1 to 8, or lower "));
  EXPECT_EQ(planned(100'000, 4).code, exit_failed);
  EXPECT_EQ(planned(100'000, 8).code, exit_done);
  const std::string to = "train.batch_size from 100000 to ";
  ASSERT_THAT(out, HasSubstr(to));
  const std::int64_t fits = std::stoll(out.substr(out.find(to) + to.size()));
  EXPECT_EQ(planned(fits, 1).code, exit_done);
  EXPECT_EQ(planned(fits + 1, 1).code, exit_failed);
}

// The workspace of an attention does not shrink with the samples.
TEST_F(Plan, NamesABatchOfAVisionTransformerThatFits) {
  const auto planned = [&](std::int64_t batch_size) {
    return plan({"--device", "a100", "-r",
                 "model={file: " TROUPE_SOURCE_DIR "/tests/golden/graphs/vit.pt2}", "-r",
                 "data={name: synthetic, shape: [3, 20, 24], count: 1000000}", "-r",
                 "parallel.pipeline=1", "-r", "parallel.partition=[]", "-r",
                 fmt::format("train.batch_size={}", batch_size), "-r", "train.micro_batches=1"});
  };
  const std::string out = planned(1'000'000).out, to = "train.batch_size from 1000000 to ";
  ASSERT_THAT(out, HasSubstr(to));
  EXPECT_EQ(planned(std::stoll(out.substr(out.find(to) + to.size()))).code, exit_done);
}

// In 16 bits, workspaces grow with the samples too.
TEST_F(Plan, NamesTheMicroBatchesThatFitInSixteenBits) {
  const auto planned = [&](int micro_batches) {
    return plan({"--device", "a100", "-r", "model={name: mnist_cnn}", "-r",
                 "data={name: synthetic, shape: [1, 28, 28], count: 400000}", "-r",
                 "parallel.pipeline=1", "-r", "parallel.partition=[]", "-r", "precision=bf16-mixed",
                 "-r", "train.batch_size=400000", "-r",
                 fmt::format("train.micro_batches={}", micro_batches)});
  };
  EXPECT_THAT(planned(1).out,
              HasSubstr("\n  try: raise train.micro_batches from 1 to 4, or lower "));
  EXPECT_EQ(planned(2).code, exit_failed);
  EXPECT_EQ(planned(4).code, exit_done);
}

TEST_F(Plan, SaysHowToPlanWithoutTheDataWhereTheyAreMissing) {
  for (const std::string data :
       {"image_folder", "image_folder, path: /no/such", "cifar10, path: /no/such",
        "mnist, path: /no/such", "npy, path: /no/such", "csv, path: /no/such"}) {
    const Ran planned = plan({"-r", "data={name: " + data + "}"});
    EXPECT_NE(planned.code, exit_done);
    EXPECT_THAT(planned.error, HasSubstr("; or plan with -r data.name=synthetic, and data.shape "
                                         "and data.classes of the data set (CIFAR-10: -r "
                                         "'data.shape=[3, 32, 32]' -r data.classes=10)\n"));
  }
  EXPECT_THAT(plan({"-r", "data.pth=x"}).error, Not(HasSubstr("synthetic")));
}

TEST_F(Plan, RefusesTensorsOfAGpuThatWouldLeaveTheirProcessAsTrainDoes) {
  const Ran planned = plan({"--device", "h100", "--nproc-per-node", "2"});
  EXPECT_EQ(planned.code, exit_failed);
  EXPECT_THAT(planned.error, AllOf(HasSubstr("2 processes, but a run on a GPU has one process"),
                                   HasSubstr("try: plan for one process, or --device cpu")));
}

/// What is printed of a run of 16 samples with these GiB on a GPU of 10.5 GiB.
std::string printed_memory(std::size_t activations, std::size_t state, std::uint32_t micro_batches,
                           std::size_t images = 0, std::size_t graphs = 0,
                           const std::string& without_cudnn = "") {
  constexpr std::size_t gib = std::size_t{1} << 30;
  const PipelineOptions pipeline{.model = Mlp{},
                                 .data = {.dataset = open_dataset(Synthetic{.count = 16}, {})},
                                 .batch_size = 16,
                                 .micro_batches = micro_batches};
  const Graph graph;
  const auto on_device = MemoryBound::Place::device;
  const PlannedRun run{
      .pipeline = pipeline,
      .graph = graph,
      .bounds = {{.parts = {{"stage 0 activations", activations * gib, on_device},
                            {"stage 0 state", state * gib, on_device},
                            {"resident images", images * gib, on_device},
                            {"stage 0 CUDA graphs", graphs * gib, on_device},
                            {"data set", 77}}}},
      .topology = TransportTopology({{}}, automatic_transport),
      .gpu =
          PlannedGpu{
              .title = "A GPU", .memory_bytes = 10 * gib + gib / 2, .without_cudnn = without_cudnn},
      .gpu_bytes = [&](std::int64_t batch_size, std::int64_t of, bool with_graphs) {
        const std::int64_t samples = batch_size / of, planned = 16 / micro_batches;
        return activations * gib * samples / planned +
               (state + images + (with_graphs ? graphs : 0)) * gib;
      }};
  testing::internal::CaptureStdout();
  print_memory(run);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

TEST(PlannedMemory, SaysByHowMuchAGpuIsTooSmallAndWhatToLower) {
  EXPECT_THAT(printed_memory(6, 3, 4),
              AllOf(HasSubstr("the run fits, and 0 B remain"), Not(HasSubstr("try:"))));
  EXPECT_THAT(
      printed_memory(9, 3, 4),
      HasSubstr(
          "A GPU has 10.5 GiB, of which the driver and CUDA take 1.5 GiB (assumed):\nthe run "
          "does not fit: it needs 3.0 GiB more\n  try: raise train.micro_batches from 4 to 8, "
          "or lower train.batch_size from 16 to 8\n"));
  EXPECT_THAT(
      printed_memory(9, 3, 16),
      HasSubstr("\n  try: lower train.batch_size and train.micro_batches together, choose a "
                "smaller model, or use fewer stages or replicas\n"));
  EXPECT_THAT(printed_memory(6, 3, 4, 0, 2),
              HasSubstr("\n  try: set cuda_graphs to false: the graphs take 2.0 GiB\n"));
  EXPECT_THAT(
      printed_memory(9, 3, 4, 0, 2),
      HasSubstr("\n  try: raise train.micro_batches from 4 to 16, or lower train.batch_size "
                "from 16 to 4\n"));
  EXPECT_THAT(printed_memory(20, 3, 4, 0, 2),
              HasSubstr("\n  try: set cuda_graphs to false; then raise train.micro_batches from 4 "
                        "to 16, or lower train.batch_size from 16 to 4\n"));
  EXPECT_THAT(printed_memory(20, 3, 4, 2),
              HasSubstr("\n  try: set data.resident to false; then raise train.micro_batches from "
                        "4 to 16, or lower train.batch_size from 16 to 4\n"));
  EXPECT_THAT(printed_memory(20, 3, 4, 2, 2),
              HasSubstr("\n  try: set cuda_graphs and data.resident to false; then raise "
                        "train.micro_batches from 4 to 16"));
  EXPECT_THAT(
      printed_memory(5, 3, 16, 2, 2),
      HasSubstr("\n  try: set cuda_graphs and data.resident to false: they take 4.0 GiB\n"));
  EXPECT_THAT(printed_memory(1, 12, 4),
              HasSubstr("the weights' state and gradients alone take 12.0 GiB: choose a smaller "
                        "model"));
  EXPECT_THAT(printed_memory(5, 3, 4, 2),
              HasSubstr("it needs 1.0 GiB more\n  try: set data.resident to false: the images take "
                        "2.0 GiB\n"));
  EXPECT_THAT(printed_memory(9, 3, 4, 1), HasSubstr("\n  try: raise train.micro_batches"));
}

TEST_F(Plan, MissesCudnnOnlyForConvolutionsThatItComputes) {
  const auto with = [&](const std::string& model, const std::string& precision) {
    return plan({"--device", "h100", "-r", "parallel.pipeline=1", "-r", "parallel.partition=[]",
                 "-r", "model.name=" + model, "-r", "precision=" + precision})
        .out;
  };
  const auto misses =
      HasSubstr("\ncuDNN's workspaces, up to 2 GiB for each stage, are not counted");
  EXPECT_THAT(with("mnist_cnn", "32-true"), misses);
  EXPECT_THAT(with("mnist_cnn", "bf16-mixed"), misses);
  EXPECT_THAT(with("mnist_cnn", "64-true"), AllOf(HasSubstr("the run fits"), Not(misses)));
  EXPECT_THAT(with("mlp", "32-true"), AllOf(HasSubstr("the run fits"), Not(misses)));
}

TEST(PlannedMemory, DoesNotSayThatARunFitsWhereWorkspacesThatAreNotCountedMayNot) {
  EXPECT_THAT(printed_memory(6, 2, 4, 0, 0, "no cuDNN"),
              HasSubstr("without cuDNN's workspaces, the run may fit, and 1.0 GiB remain\n"));
  EXPECT_THAT(printed_memory(6, 1, 4, 0, 0, "no cuDNN"),
              HasSubstr("the run fits, and 2.0 GiB remain for cuDNN's workspaces\n"));
}

TEST(PlannedMemory, NamesBatchesThatLeaveRoomForWorkspacesThatAreNotCounted) {
  EXPECT_THAT(printed_memory(9, 3, 4, 0, 0, "no cuDNN"),
              HasSubstr("it needs 3.0 GiB more\n  try: raise train.micro_batches from 4 to 16, or "
                        "lower train.batch_size from 16 to 4\n"));
}

TEST_F(Plan, FitsATerminal) {
  const Ran planned = plan(
      {"--nnodes", "2", "--nproc", "4", "-r", "parallel.data=4", "-r", "parallel.partition=[1,3]"});
  ASSERT_EQ(planned.code, exit_done) << planned.error;
  std::istringstream lines(planned.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(std::ranges::count_if(line, [](unsigned char c) { return (c & 0xc0) != 0x80; }), 80)
        << line;
}

}  // namespace
}  // namespace troupe

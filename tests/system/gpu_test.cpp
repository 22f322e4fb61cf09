// The command on a GPU: its code for GPUs on the emulator of tests/cuda.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/system/process.h"
#include "tests/unit/runtime/file/npy_text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto recipe = R"(
seed: 5
device: cuda
data: {name: synthetic, shape: [1, 28, 28], classes: 4, count: 32, mean: [0.5], std: [0.25]}
model: {name: wide_resnet, widths: [2, 2, 4, 4], dropout: 0.1}
train: {epochs: 1, batch_size: 8, micro_batches: 2, lr: 0.01}
parallel: {actor_threads: 2, intra_op_threads: 1}
checkpoint: {every_steps: 2, keep: 0}
)";

class Gpu : public testing::Test {
 protected:
  Gpu() {
    std::string pattern = (fs::temp_directory_path() / "troupe_gpu_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::ofstream(root_ / "options.yaml") << recipe;
  }
  ~Gpu() override { fs::remove_all(root_); }

  void SetUp() override {
    if (std::string_view(TROUPE_CUDA_ON_CPU).empty())
      GTEST_SKIP() << "no emulator: it needs the headers of a CUDA toolkit, and no sanitizer";
  }
  Outcome with_library(const std::string& library, std::vector<std::string> words) const {
    words.insert(words.begin(), {"/usr/bin/env", "TROUPE_CUDA_LIBRARY=" + library, TROUPE_BINARY});
    return run_process(words, root_.string());
  }
  Outcome command(const std::vector<std::string>& words) const {
    return with_library(TROUPE_CUDA_ON_CPU, words);
  }
  /// With variables of the emulator.
  Outcome emulated(const std::vector<std::string>& variables,
                   const std::vector<std::string>& words) const {
    std::vector<std::string> all{"/usr/bin/env", "TROUPE_CUDA_LIBRARY=" TROUPE_CUDA_ON_CPU};
    all.insert(all.end(), variables.begin(), variables.end());
    all.emplace_back(TROUPE_BINARY);
    all.insert(all.end(), words.begin(), words.end());
    return run_process(all, root_.string());
  }
  Outcome train(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"train", "options.yaml", "-o", output};
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  }
  static double test_loss(const Outcome& evaluated) {
    const std::regex loss("test loss ([0-9.]+)");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(evaluated.out, found, loss)) << evaluated.error;
    return found.empty() ? -1 : std::stod(found[1]);
  }
  std::string digest(const std::string& output) const {
    return digest_in(command({"inspect", "--digest", output}));
  }

  /// Evaluates a run, on the emulator, and compares with what the run wrote last.
  void expect_evaluates_on_gpu(const std::string& output) const {
    const Outcome outcome = command({"eval", output});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr(", on cuda:0 (emulated"));
    EXPECT_THAT(outcome.error, HasSubstr(" 0 errors"));
    const std::string rows = csv(output), names = rows.substr(0, rows.find('\n'));
    const auto column = std::count(names.begin(), names.begin() + names.find("test_loss"), ',');
    std::istringstream last(rows.substr(rows.rfind('\n', rows.size() - 2) + 1));
    std::string cell;
    for (std::ptrdiff_t i = 0; i <= column; ++i) std::getline(last, cell, ',');
    EXPECT_NEAR(test_loss(outcome), std::stod(cell), 1e-8) << "nine digits";
  }

  std::string csv(const std::string& output) const {
    std::ifstream file(root_ / output / "train.csv");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path root_;
};

TEST_F(Gpu, TrainsToTheSameBitsInAnyNumberOfStages) {
  const Outcome whole = train("whole");
  ASSERT_EQ(whole.exit_code, 0) << whole.error;
  EXPECT_THAT(whole.out, HasSubstr("on cuda:0 (emulated"));
  EXPECT_THAT(whole.error, HasSubstr(" 0 errors"));
  const Outcome stages = train("stages", {"-r", "parallel.pipeline=3"});
  ASSERT_EQ(stages.exit_code, 0) << stages.error;
  EXPECT_THAT(stages.error, HasSubstr(" 0 errors"));
  EXPECT_EQ(digest("stages"), digest("whole"));
}

TEST_F(Gpu, TrainsWithCudaGraphsToTheSameBitsAndSaysSo) {
  const Outcome without = train("without"), graphs = train("graphs", {"-r", "cuda_graphs=true"});
  ASSERT_EQ(graphs.exit_code, 0) << graphs.error;
  EXPECT_THAT(graphs.out, HasSubstr("), CUDA graphs\n"));
  EXPECT_THAT(without.out, Not(HasSubstr("CUDA graphs")));
  EXPECT_THAT(graphs.error, HasSubstr(" 0 errors"));
  EXPECT_EQ(digest("graphs"), digest("without"));
}

TEST_F(Gpu, TrainsWithAlgorithmsThatAreNotDeterministicIfAskedAndSaysSo) {
  const Outcome usual = train("usual"), free = train("free", {"-r", "deterministic=false"});
  ASSERT_EQ(free.exit_code, 0) << free.error;
  EXPECT_THAT(free.out, HasSubstr("), not deterministic\n"));
  EXPECT_THAT(usual.out, Not(HasSubstr("deterministic")));
  EXPECT_THAT(free.error, HasSubstr(" 0 errors"));
}

TEST_F(Gpu, RefusesSeveralProcesses) {
  const Outcome launched = command({"launch", "--nproc-per-node=2", "--", "train", "options.yaml",
                                    "-o", "processes", "-r", "parallel.pipeline=2"});
  EXPECT_NE(launched.exit_code, 0);
  const std::string refusal = "2 processes, but a run on a GPU has one process";
  const std::size_t first = launched.error.find(refusal);
  EXPECT_NE(first, std::string::npos) << launched.error;
  EXPECT_EQ(launched.error.find(refusal, first + 1), std::string::npos) << launched.error;
  EXPECT_FALSE(fs::exists(root_ / "processes"));
  const Outcome without =
      with_library("/missing.so", {"launch", "--nproc-per-node=2", "--", "train", "options.yaml",
                                   "-o", "without", "-r", "parallel.pipeline=2"});
  EXPECT_THAT(without.error, AllOf(HasSubstr("no GPU can be used"), Not(HasSubstr("one process"))));
  const Outcome automatic =
      command({"launch", "--nproc-per-node=2", "--", "train", "options.yaml", "-o", "automatic",
               "-r", "parallel.pipeline=2", "-r", "device=auto"});
  EXPECT_EQ(automatic.exit_code, 0) << automatic.error;
  EXPECT_THAT(automatic.out, HasSubstr(", on the CPU\n"));
  EXPECT_THAT(automatic.out + automatic.error,
              HasSubstr("computing on the CPU: a run of several processes cannot use a GPU"));
  const Outcome rounded =
      command({"launch", "--nproc-per-node=2", "--", "train", "options.yaml", "-o", "rounded", "-r",
               "parallel.pipeline=2", "-r", "device=auto", "-r", "precision=16-mixed"});
  EXPECT_NE(rounded.exit_code, 0);
  EXPECT_THAT(rounded.error, HasSubstr("; several processes compute on the CPU"));
}

TEST_F(Gpu, ResumesToTheSameBitsAndIsEvaluatedOnTheCpuToo) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("part", {"-r", "train.steps=2"}).exit_code, 0);
  ASSERT_EQ(train("part", {"--restart", "part", "-r", "train.steps=0"}).exit_code, 0);
  EXPECT_EQ(digest("part"), digest("whole"));
  expect_evaluates_on_gpu("part");
  const double on_gpu = test_loss(command({"eval", "whole"}));
  EXPECT_NEAR(test_loss(command({"eval", "whole", "-r", "device=cpu"})), on_gpu, 1e-5);
  const Outcome without = with_library("/missing.so", {"eval", "whole"});
  EXPECT_NEAR(test_loss(without), on_gpu, 1e-5);
  EXPECT_THAT(without.out + without.error,
              HasSubstr("warning: computing on the CPU: no GPU can be used: TROUPE_CUDA_LIBRARY="));
  const Outcome asked = with_library("/missing.so", {"eval", "whole", "-r", "device=cuda"});
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.error, AllOf(HasSubstr("no GPU can be used"), HasSubstr("/missing.so")));
}

TEST_F(Gpu, LeavesARunOnTheCpuThereWhenItIsEvaluated) {
  ASSERT_EQ(train("cpu", {"-r", "device=cpu"}).exit_code, 0);
  const Outcome evaluated = command({"eval", "cpu"});
  EXPECT_THAT(evaluated.out, AllOf(HasSubstr("test loss"), Not(HasSubstr("on cuda:0"))));
  EXPECT_THAT(command({"eval", "cpu", "-r", "device=cuda"}).out, HasSubstr(", on cuda:0 (emul"));
}

TEST_F(Gpu, TrainsInOtherPrecisionsAndSaysSo) {
  ASSERT_EQ(train("whole").exit_code, 0);
  for (const std::string precision : {"bf16-mixed", "16-mixed"}) {
    const Outcome outcome = train(precision, {"-r", "precision=" + precision});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr(", " + precision + ", on cuda:0"));
    EXPECT_THAT(outcome.error, HasSubstr(" 0 errors"));
    EXPECT_THAT(outcome.out, Not(HasSubstr("tensor cores")));
    EXPECT_NE(digest(precision), digest("whole"));
    expect_evaluates_on_gpu(precision);
  }
  const Outcome on_cpu = command({"eval", "bf16-mixed", "-r", "device=cpu"});
  if (on_cpu.exit_code == 0)
    EXPECT_NEAR(test_loss(on_cpu), test_loss(command({"eval", "bf16-mixed"})), 1e-2);
  else
    EXPECT_THAT(on_cpu.error, HasSubstr("it has neither AVX-512 BF16 nor AMX"));
  const Outcome outcome =
      train("tf32", {"-r", "conv_precision=tf32", "-r", "matmul_precision=tf32"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr(", matmul_precision tf32, conv_precision tf32, on cuda:"),
                    Not(HasSubstr("tensor cores"))));
  EXPECT_NE(digest("tf32"), digest("whole"));
  expect_evaluates_on_gpu("tf32");
  EXPECT_NEAR(test_loss(command({"eval", "tf32", "-r", "device=cpu"})),
              test_loss(command({"eval", "tf32"})), 1e-2);
}

TEST_F(Gpu, SaysWhichOptionsUseTensorCoresWhereF32DoesNot) {
  const Outcome whole = train("whole");
  EXPECT_THAT(whole.out, HasSubstr("\nf32 uses no tensor cores; for speed, try -r "
                                   "conv_precision=tf32 -r matmul_precision=tf32, or -r "
                                   "precision=bf16-mixed\n"));
  const Outcome forced = emulated({"NVIDIA_TF32_OVERRIDE=1"},
                                  {"train", "options.yaml", "-o", "forced", "-r", "train.steps=1"});
  EXPECT_THAT(forced.out,
              AllOf(HasSubstr("NVIDIA_TF32_OVERRIDE=1"), Not(HasSubstr("tensor cores"))));
  for (const std::string option : {"device=cpu", "precision=64-true", "matmul_precision=tf32"})
    EXPECT_THAT(train(option, {"-r", option, "-r", "train.steps=1"}).out,
                AllOf(HasSubstr("output in "), Not(HasSubstr("tensor cores"))))
        << option;
}

TEST_F(Gpu, SaysWhichOptionsHaveNoEffectOnIt) {
  const Outcome usual = train("usual", {"-r", "parallel.intra_op_threads=auto"});
  EXPECT_THAT(usual.out, AllOf(HasSubstr("2 actor threads\n"), Not(HasSubstr("per kernel"))));
  EXPECT_THAT(usual.out + usual.error, Not(HasSubstr("no effect")));
  const Outcome set =
      train("set", {"-r", "parallel.intra_op_threads=7", "-r", "convolution=direct"});
  EXPECT_THAT(set.out + set.error,
              AllOf(HasSubstr("convolution direct has no effect on a GPU"),
                    HasSubstr("parallel.intra_op_threads has no effect on the kernels"),
                    Not(HasSubstr("intra-op threads share")), Not(HasSubstr("per kernel"))));
  const Outcome mixed = train("mixed", {"-r", "conv_precision=tf32", "-r", "precision=bf16-mixed"});
  EXPECT_THAT(mixed.out, AllOf(HasSubstr(", bf16-mixed, on cuda:0"), Not(HasSubstr("tf32, on"))));
}

TEST_F(Gpu, ReportsItsUseInTrainCsvAndAtTheEnd) {
  std::vector<std::string> words{"/usr/bin/env",
                                 std::string("TROUPE_CUDA_LIBRARY=") + TROUPE_CUDA_ON_CPU,
                                 std::string("LD_LIBRARY_PATH=") + TROUPE_FAKE_NVML_FOLDER,
                                 TROUPE_BINARY,
                                 "train",
                                 "options.yaml",
                                 "-o",
                                 "seen"};
  const Outcome seen = run_process(words, root_.string());
  ASSERT_EQ(seen.exit_code, 0) << seen.error;
  EXPECT_THAT(seen.out,
              HasSubstr("\nGPU: busy 75 % of the time, at most 3.0 of 16.0 GiB in use (also by "
                        "other processes), 250 W\n"));
  EXPECT_THAT(csv("seen"),
              AllOf(HasSubstr(",gpu_utilisation_percent,gpu_memory_mib,gpu_power_w,test_loss,"),
                    testing::ContainsRegex("\n1,.*,75,3072,250,")));
  const Outcome unseen = train("unseen");
  EXPECT_THAT(unseen.out, HasSubstr("\nGPU: no usage data in train.csv: libnvidia-ml.so.1: "));
  EXPECT_THAT(csv("unseen"), testing::ContainsRegex("gpu_power_w,test_loss.*\n1,.*,,,,"));
  ASSERT_EQ(train("cpu", {"-r", "device=cpu"}).exit_code, 0);
  EXPECT_THAT(csv("cpu"), Not(HasSubstr("gpu")));
}

TEST_F(Gpu, PlansTheMemoryOfTheGpuThatIsThere) {
  const Outcome planned = command({"plan", "options.yaml"});
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_THAT(planned.out, AllOf(HasSubstr("\nmemory bound of the GPU\n"),
                                 HasSubstr("\nemulated has 80.0 GiB, "), HasSubstr("the run fits"),
                                 HasSubstr("\nmemory bound of the CPU\n"),
                                 HasSubstr("(simulated from measured blocks; messages take"),
                                 Not(HasSubstr("share one GPU"))));
  EXPECT_THAT(command({"plan", "options.yaml", "-r", "parallel.data=2"}).out,
              AllOf(HasSubstr("1 stage × 2 replicas share one GPU, so a step of"),
                    Not(HasSubstr("stages wait"))));
}

TEST_F(Gpu, PlansWithoutAnyLibraryForAGpuThatIsDescribed) {
  const Outcome planned =
      with_library("/missing.so", {"plan", "options.yaml", "--device", "gh200"});
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_THAT(
      planned.out,
      AllOf(HasSubstr("NVIDIA GH200 480GB has 96.0 GiB"),
            HasSubstr("cuDNN's workspaces, up to 2 GiB for each stage, are not counted: no GPU "
                      "can be used: TROUPE_CUDA_LIBRARY=/missing.so")));
}

TEST_F(Gpu, PlansForADescribedGpuWhateverGpuTheHostHas) {
  for (const char* host : {"CUDA_ON_CPU_DEVICES=0", "CUDA_ON_CPU_ARCHITECTURE=75"})
    for (const char* precision : {"bf16-mixed", "16-mixed"}) {
      const Outcome planned = emulated({host}, {"plan", "options.yaml", "--device", "h100", "-r",
                                                "precision=" + std::string(precision)});
      EXPECT_EQ(planned.exit_code, 0) << host << ": " << planned.error;
      EXPECT_THAT(planned.out, HasSubstr("H100"));
    }
}

TEST_F(Gpu, RefusesALibraryThatWasCutShort) {
  const fs::path cut = root_ / "cut.so";
  fs::copy_file(TROUPE_CUDA_ON_CPU, cut);
  for (const std::uintmax_t size : {fs::file_size(cut) / 2, std::uintmax_t{1000}}) {
    fs::resize_file(cut, size);
    for (const char* verb : {"doctor", "train"}) {
      const Outcome outcome = with_library(cut.string(), {verb, "options.yaml"});
      EXPECT_THAT(outcome.out + outcome.error,
                  AllOf(HasSubstr("cut.so: it is truncated, to " + std::to_string(size)),
                        HasSubstr("unset it, or name the library of this build")));
    }
  }
}

TEST_F(Gpu, IsTriedByTheDoctor) {
  const Outcome doctor = emulated({"CUDA_ON_CPU_DEVICE_BYTES=0"}, {"doctor", "options.yaml"});
  EXPECT_EQ(doctor.exit_code, 1);
  EXPECT_THAT(doctor.out,
              AllOf(HasSubstr("error: GPUs: no GPU can be used: out of memory on cuda:0"),
                    HasSubstr("try: end the programs that use the GPU")));
  const Outcome choosing =
      emulated({"CUDA_ON_CPU_DEVICE_BYTES=0"}, {"doctor", "options.yaml", "-r", "device=auto"});
  EXPECT_EQ(choosing.exit_code, 0);
  EXPECT_THAT(choosing.out, HasSubstr("warning: GPUs: no GPU can be used"));
}

TEST_F(Gpu, NamesAFileThatIsNoLibraryForGpus) {
  ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0600), 0);
  for (const auto& [file, reason] :
       {std::pair((root_ / "pipe").string(), "it is not a regular file"),
        std::pair(std::string("libc.so.6"), "it is not libtroupe_cuda.so")}) {
    const Outcome outcome = with_library(file, {"train", "options.yaml", "-r", "device=cuda"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("TROUPE_CUDA_LIBRARY=" + file + ": " + reason),
                                     HasSubstr("unset it, or name the library of this build")));
  }
}

TEST_F(Gpu, PlansWithCudnnsWorkspacesWhereItIsBuiltIn) {
  const std::string library = TROUPE_CUDA_LIBRARY_FILE;
  if (library.empty()) GTEST_SKIP() << "no cuDNN 9, or no headers of its frontend";
  const auto workspaces = [&](const std::string& conv_precision) {
    const Outcome planned =
        with_library(library, {"plan", "options.yaml", "--device", "h100", "-r",
                               "model.widths=[16, 160, 320, 640]", "-r", "data.count=64", "-r",
                               "train.batch_size=64", "-r", "train.micro_batches=1", "-r",
                               "conv_precision=" + conv_precision});
    EXPECT_EQ(planned.exit_code, 0) << planned.error;
    EXPECT_THAT(planned.out, Not(HasSubstr("not counted")));
    const std::regex line("workspaces of kernels +([0-9.]+) MiB");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(planned.out, found, line)) << planned.out;
    return found.empty() ? 0 : std::stod(found[1]);
  };
  // Of a matrix product 32 MiB, and a quarter more by size classes; cuDNN asks for more on Hopper.
  EXPECT_GT(workspaces("ieee"), 40.0);
  EXPECT_NE(workspaces("tf32"), workspaces("ieee")) << "as cuDNN 9.19 has it for an H100";
}

TEST_F(Gpu, TellsWhichKernelsTheBuildHasWhereNoneIsForTheGpu) {
  const Outcome asked = emulated({"CUDA_ON_CPU_ARCHITECTURE=70"}, {"train", "options.yaml"});
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.error,
              AllOf(HasSubstr("no kernel image is available"),
                    HasSubstr("emulated has compute capability 7.0 (sm_70), but this build has "
                              "kernels for sm_90 only"),
                    HasSubstr("try: build with -DTROUPE_CUDA_ARCHITECTURES=70-real and CUDA 12")));
  const Outcome doctor = emulated({"CUDA_ON_CPU_ARCHITECTURE=70"}, {"doctor", "options.yaml"});
  EXPECT_THAT(
      doctor.out,
      HasSubstr(
          "error: GPUs: emulated has compute capability 7.0 (sm_70), but this troupe has kernels "
          "for sm_90 only"));
}

TEST_F(Gpu, TellsTheVersionsOfADriverThatIsTooOld) {
  const Outcome asked = emulated({"CUDA_ON_CPU_DRIVER=11080"}, {"train", "options.yaml"});
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.error,
              AllOf(HasSubstr("the driver supports CUDA up to 11.8, but this build needs CUDA"),
                    HasSubstr("try: update the driver to 5")));
  const Outcome doctor = emulated({"CUDA_ON_CPU_DRIVER=11080"}, {"doctor", "options.yaml"});
  EXPECT_THAT(doctor.out,
              HasSubstr("error: GPUs: the driver supports CUDA up to 11.8, but this troupe is"));
}

TEST_F(Gpu, SaysThatThereIsNone) {
  const Outcome asked = emulated({"CUDA_ON_CPU_DEVICES=0"}, {"train", "options.yaml"});
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.error, AllOf(HasSubstr("no CUDA-capable device is detected"),
                                 HasSubstr("ask the scheduler for a GPU")));
  const Outcome doctor = emulated({"CUDA_ON_CPU_DEVICES=0"}, {"doctor", "options.yaml"});
  EXPECT_THAT(doctor.out,
              HasSubstr("error: GPUs: CUDA could not count the devices: no CUDA-capable"));
}

TEST_F(Gpu, SatisfiesTheDoctorWhereItCanBeUsed) {
  const Outcome doctor = command({"doctor", "options.yaml"});
  EXPECT_THAT(doctor.out, AllOf(HasSubstr("emulated (sm_90, 80 GiB)"), Not(HasSubstr(": GPUs:"))));
}

TEST_F(Gpu, TellsWhoRanOutOfMemoryAndWhatToLower) {
  const Outcome ran = emulated({"CUDA_ON_CPU_DEVICE_BYTES=700000"},
                               {"train", "options.yaml", "-o", "out", "-r", "parallel.pipeline=2"});
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_THAT(
      ran.error,
      AllOf(testing::ContainsRegex(
                "(stage/[01]|loss|reducer/[01]): out of memory on cuda:0: "
                "[1-9][0-9.]* K?i?B requested, [1-9][0-9.]* KiB in use, [0-9.]+ K?i?B of "
                "683.6 KiB free; its edge "
                "[a-z/01]+\\.[a-z]+ → [a-z/01]+\\.[a-z]+ holds [0-9]+ × [1-9][0-9.]* [KM]iB; the "
                "bound of a process is [1-9][0-9.]* [KMG]iB on cpu, and [1-9][0-9.]* [KMG]iB on "
                "cuda:0, of which [1-9][0-9.]* [KMG]iB for "),
            HasSubstr("try: raise train.micro_batches, lower train.batch_size"),
            HasSubstr("troupe plan options.yaml lists the memory of each part")));
  const Outcome measuring =
      emulated({"CUDA_ON_CPU_DEVICE_BYTES=20000"},
               {"train", "options.yaml", "-o", "measuring", "-r", "parallel.pipeline=2"});
  EXPECT_THAT(measuring.error,
              testing::ContainsRegex("error: measuring the blocks of [a-z_]+ with [0-9]+ samples: "
                                     "out of memory on cuda:0: "));
  const Outcome graphs = emulated({"CUDA_ON_CPU_DEVICE_BYTES=700000"},
                                  {"train", "options.yaml", "-o", "graphs", "-r",
                                   "parallel.pipeline=2", "-r", "cuda_graphs=true"});
  EXPECT_THAT(
      graphs.error,
      AllOf(testing::ContainsRegex("out of memory on cuda:0: [1-9][0-9.]* K?i?B requested, [1-9].* "
                                   "KiB in use, .* of 683.6 KiB free; its edge .*; the bound"),
            HasSubstr("try: set cuda_graphs to false, or raise train.micro_batches")));
}

TEST_F(Gpu, KeepsImagesAndAugmentsThemToTheSameBits) {
  const std::vector<std::string> moved = {"-r", "data.augment=[crop,flip]"};
  std::vector<std::string> resident = moved;
  resident.insert(resident.end(), {"-r", "data.resident=true"});
  ASSERT_EQ(train("sent", moved).exit_code, 0);
  const Outcome trained = train("resident", resident);
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_THAT(trained.error, HasSubstr(" 0 errors"));
  EXPECT_EQ(digest("resident"), digest("sent"));
  EXPECT_EQ(test_loss(command({"eval", "resident"})), test_loss(command({"eval", "sent"})));
  EXPECT_EQ(command({"eval", "resident", "-r", "device=cpu"}).exit_code, 0);
}

TEST_F(Gpu, NamesResidentImagesWhereTheyLeaveTooLittleMemory) {
  const auto lacks_memory = [&](const std::string& bytes, const std::string& images) {
    const Outcome ran = emulated({"CUDA_ON_CPU_DEVICE_BYTES=" + bytes},
                                 {"train", "options.yaml", "-o", "out" + images, "-r",
                                  "data.resident=true", "-r", "data.count=" + images});
    EXPECT_NE(ran.exit_code, 0);
    EXPECT_THAT(ran.error,
                HasSubstr("try: set data.resident to false, or raise train.micro_batches"));
    return ran.error;
  };
  EXPECT_THAT(lacks_memory("4000000", "8000"),
              HasSubstr("loader: copying the images of the data set: out of memory on cuda:0"));
  EXPECT_THAT(lacks_memory("300000", "32"), HasSubstr("out of memory on cuda:0"));
}

TEST_F(Gpu, EndsARunWhoseDeviceFailsAndSaysHowToResume) {
  std::ofstream(root_ / "small.yaml") << R"(
device: cuda
data: {name: synthetic, shape: [1, 8, 8], classes: 4, count: 32}
model: {name: mlp, widths: [8]}
train: {epochs: 2000, batch_size: 8, lr: 0.01, evaluate: false}
checkpoint: {every_steps: 1}
)";
  // Some 50 steps, or more until a checkpoint is written, where the disk is busy.
  const auto failing = [&](const std::string& failure, const std::string& output) {
    Outcome ran;
    for (int operations = 5000; operations < 500'000; operations *= 4) {
      ran = emulated({"CUDA_ON_CPU_FAIL_AFTER=" + std::to_string(operations),
                      "CUDA_ON_CPU_FAILURE=" + failure},
                     {"train", "small.yaml", "-o", output});
      if (ran.error.find("no checkpoint was written") == std::string::npos) break;
      fs::remove_all(root_ / output);
    }
    return ran;
  };
  const Outcome fault = failing("700", "fault");  // an illegal address
  EXPECT_NE(fault.exit_code, 0);
  EXPECT_THAT(fault.error,
              AllOf(HasSubstr("an illegal memory access was encountered"),
                    HasSubstr("a kernel failed; the contents of the GPU's memory are lost"),
                    HasSubstr("with the same command and --restart fault")));
  for (const char* failure : {"214", "999"}) {  // an error of its memory; off the bus
    const Outcome lost = failing(failure, std::string("lost") + failure);
    EXPECT_NE(lost.exit_code, 0);
    EXPECT_THAT(lost.error, AllOf(HasSubstr("the GPU or its link may have failed"),
                                  HasSubstr("look for Xid errors (dmesg, nvidia-smi -q)"),
                                  HasSubstr("--restart lost")));
  }
  const Outcome early =
      emulated({"CUDA_ON_CPU_FAIL_AFTER=300", "CUDA_ON_CPU_FAILURE=700"},
               {"train", "small.yaml", "-r", "checkpoint.every_steps=1000", "-o", "early"});
  EXPECT_THAT(early.error, AllOf(HasSubstr("no checkpoint was written: start the run again"),
                                 Not(HasSubstr("resume"))));
  const Outcome evaluated =
      emulated({"CUDA_ON_CPU_FAIL_AFTER=15", "CUDA_ON_CPU_FAILURE=700"}, {"eval", "fault"});
  EXPECT_THAT(evaluated.error, AllOf(HasSubstr("only a new process can use the GPU again"),
                                     Not(HasSubstr("resume"))));
  const Outcome resumed =
      command({"train", "small.yaml", "--restart", "fault", "-r", "train.steps=80"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
}

TEST_F(Gpu, NamesATokenThatTheEmbeddingLacksAsTheCpuDoes) {
  std::vector<std::int64_t> tokens(std::size_t{12} * 16), targets(16);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(i % 10);
  tokens[40] = 10;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
  };
  write("x.npy", test::npy_of<std::int64_t>("<i8", "(16, 12)", tokens));
  write("y.npy", test::npy_of<std::int64_t>("<i8", "(16,)", targets));
  write("tokens.yaml", "device: cuda\nmodel: {file: " TROUPE_SOURCE_DIR
                       "/tests/golden/graphs/tokens.pt2}\n"
                       "data: {name: npy, path: ., train_samples: x.npy, train_targets: y.npy, "
                       "test_fraction: 0.25}\n"
                       "train: {batch_size: 12, epochs: 1, lr: 0.01, evaluate: true}\n");
  const auto refusal = [&](const std::string& device) {
    const Outcome ran =
        command({"train", "tokens.yaml", "-o", "run_" + device, "-r", "device=" + device});
    EXPECT_NE(ran.exit_code, 0);
    const auto from = ran.error.find("stage/0: ");
    return from == std::string::npos
               ? ran.error
               : ran.error.substr(from, ran.error.find("cuda_on_cpu:") - from);
  };
  const std::string on_cpu = refusal("cpu");
  EXPECT_THAT(on_cpu, HasSubstr("embedding: index 10 at place 4 of sample "));
  EXPECT_EQ(refusal("cuda"), on_cpu);
}

TEST_F(Gpu, SaysWhyNoneCanBeUsed) {
  const Outcome asked = with_library("/missing.so", {"train", "options.yaml", "-o", "asked"});
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.error, AllOf(HasSubstr("no GPU can be used"), HasSubstr("/missing.so")));
  EXPECT_FALSE(fs::exists(root_ / "asked" / "checkpoints"));
  const Outcome automatic = with_library(
      "/missing.so", {"train", "options.yaml", "-o", "automatic", "-r", "device=auto"});
  EXPECT_EQ(automatic.exit_code, 0);
  EXPECT_THAT(automatic.out + automatic.error,
              HasSubstr("computing on the CPU: no GPU can be used"));
  const Outcome mixed = with_library("/missing.so", {"train", "options.yaml", "-o", "mixed", "-r",
                                                     "device=auto", "-r", "precision=16-mixed"});
  EXPECT_NE(mixed.exit_code, 0);
  EXPECT_THAT(mixed.error, AllOf(HasSubstr("precision is 16-mixed, but the device cpu does not"),
                                 HasSubstr(", and no GPU can be used"), HasSubstr("/missing.so")));
}

}  // namespace
}  // namespace troupe

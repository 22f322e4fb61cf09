// The doctor's checks of GPUs, on machines that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/doctor/checks.h"
#include "tests/unit/apps/machine.h"

namespace troupe {
namespace {

using test::healthy;
using test::text_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Demands on_gpu{.device = DeviceChoice::cuda}, automatic{},
    on_cpu{.device = DeviceChoice::cpu};

/// One process on a node with an H100, which this program uses.
Machine with_gpu() {
  Machine machine = healthy();
  machine.world.reset();
  machine.gpus_of_node = 1;
  machine.cuda = GpuSurvey{
      .architectures = {80, 90},
      .ptx = 120,
      .runtime = 13000,
      .driver = 13010,
      .gpus = {
          {.name = "NVIDIA H100", .architecture = 90, .memory_bytes = std::int64_t{80} << 30}}};
  return machine;
}

/// A program without CUDA.
Machine without_cuda() {
  Machine machine = healthy();
  machine.cuda_error = Error(ErrorCode::io, "no GPU can be used: libtroupe_cuda.so is missing");
  return machine;
}

std::string found(const Machine& machine, const Demands& demands) {
  return text_of(check_gpus(machine, demands));
}

TEST(DoctorGpu, SaysNothingWhereThereIsNoneAndNoneIsAskedFor) {
  EXPECT_THAT(found(without_cuda(), automatic), IsEmpty());
  EXPECT_THAT(found(without_cuda(), on_cpu), IsEmpty());
}

TEST(DoctorGpu, SaysWhyABuildWithCudaComputesOnTheCpu) {
  Machine broken = without_cuda();
  broken.cuda_error = Error(ErrorCode::unsupported, "libcudart.so.13 is missing");
  EXPECT_EQ(found(broken, automatic), "warning libcudart.so.13 is missing | \n");
  EXPECT_THAT(found(broken, on_cpu), IsEmpty());
  Machine override = with_gpu();
  override.gpus_of_node = 0;
  override.environment["NVIDIA_TF32_OVERRIDE"] = "0";
  EXPECT_THAT(found(override, {.tf32 = true}), HasSubstr("NVIDIA_TF32_OVERRIDE=0 forbids"));
}

TEST(DoctorGpu, SaysNothingWhereAllIsWell) {
  EXPECT_THAT(text_of(check_all(with_gpu(), on_gpu)), IsEmpty());
  Machine machine = with_gpu();
  machine.environment["SLURM_GPUS_ON_NODE"] = "1";
  EXPECT_THAT(found(machine, automatic), IsEmpty());
  EXPECT_THAT(found(with_gpu(), on_cpu), IsEmpty());  // on a workstation
}

TEST(DoctorGpu, ShowsWhichOneARunUses) {
  const auto seen = observations(with_gpu(), automatic);
  EXPECT_EQ(std::ranges::find(seen, "GPUs", &Observation::check)->seen,
            "NVIDIA H100 (sm_90, 80 GiB); none allocated by a job");
  const auto unused = observations(with_gpu(), on_cpu);
  EXPECT_EQ(std::ranges::find(unused, "GPUs", &Observation::check)->seen,
            "none allocated by a job");
  Machine without = with_gpu();
  without.cuda.reset();
  without.cuda_error = Error(ErrorCode::io, "not found", "build it");
  const auto none = observations(without, automatic);
  EXPECT_EQ(std::ranges::find(none, "GPUs", &Observation::check)->seen,
            "no CUDA in this build; no NVIDIA driver; none allocated by a job");
  without.nvidia_driver = "580.159.03";
  const auto driver = observations(without, automatic);
  EXPECT_EQ(std::ranges::find(driver, "GPUs", &Observation::check)->seen,
            "no CUDA in this build; NVIDIA driver 580.159.03; none allocated by a job");
}

TEST(DoctorGpu, FlagsAllocatedGpusThatTheOptionsLeaveIdle) {
  Machine machine = with_gpu();
  machine.environment["SLURM_JOB_GPUS"] = "0,3";
  EXPECT_EQ(found(machine, on_cpu),
            "warning the option device is cpu: 2 allocated GPUs stay idle | -r device=auto, or use "
            "CPU nodes\n");
}

TEST(DoctorGpu, FlagsAllocatedGpusThatTheBuildLeavesIdle) {
  Machine machine = without_cuda();
  machine.environment["SLURM_GPUS_ON_NODE"] = "4";
  EXPECT_THAT(found(machine, on_gpu),
              HasSubstr("error this build has no CUDA, and this host has no NVIDIA driver: 4"));
  machine.nvidia_driver = "580.159.03";
  EXPECT_EQ(found(machine, automatic),
            "warning this build has no CUDA: 4 allocated GPUs stay idle | build it with "
            "./dev build --cuda, or use CPU nodes\n");
  EXPECT_EQ(found(machine, on_gpu),
            "error this build has no CUDA: 4 allocated GPUs stay idle | build it with "
            "./dev build --cuda, or -r device=cpu\n");
}

TEST(DoctorGpu, FlagsGpusBeyondTheOneThatARunUses) {
  Machine machine = with_gpu();
  machine.environment["SLURM_GPUS_ON_NODE"] = "4";
  EXPECT_EQ(found(machine, on_gpu),
            "warning 4 allocated GPUs, but a run uses one: 3 stay idle | --gpus-per-node=1\n");
  machine.environment["SLURM_GPUS_ON_NODE"] = "2";
  machine.cuda->gpus.front().name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
  EXPECT_THAT(found(machine, automatic),
              HasSubstr("a run uses one, as CUDA shows a process one MIG instance: 1 stays idle"));
}

TEST(DoctorGpu, CountsWhatAQueueHasAllocated) {
  Machine machine = healthy();
  const auto allocated = [&](Environment::Variables variables) {
    machine.environment = std::move(variables);
    return machine.allocated_gpus();
  };
  EXPECT_EQ(allocated({{"SLURM_JOB_GPUS", "0,3"}, {"CUDA_VISIBLE_DEVICES", "0,1,2"}}), 2);
  EXPECT_EQ(allocated({{"SLURM_STEP_GPUS", "0-2,5"}}), 4);
  EXPECT_EQ(allocated({{"SLURM_GPUS_ON_NODE", "3"}, {"SLURM_JOB_GPUS", "0"}}), 3);
  EXPECT_EQ(allocated({{"PBS_JOBID", "7"}, {"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"}}), 2);
  EXPECT_EQ(allocated({{"PBS_JOBID", "7"}, {"CUDA_VISIBLE_DEVICES", ""}}), 0);
  EXPECT_EQ(allocated({{"SLURM_JOB_ID", "7"}, {"CUDA_VISIBLE_DEVICES", "-1"}}), 0);
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "0"}}), 0) << "no queue";
  EXPECT_EQ(allocated({{"SLURM_GPUS_ON_NODE", "-5"}, {"SLURM_JOB_GPUS", "0,,1,"}}), 2);
  EXPECT_EQ(allocated({{"SLURM_JOB_GPUS", "0-2147483647"}}), 1) << "no node has so many";
  EXPECT_EQ(allocated({{"SLURM_JOB_GPUS", "0-99999999999999"}}), 1);
}

TEST(DoctorGpu, FlagsADriverThatIsTooOldForTheBuild) {
  Machine machine = with_gpu();
  machine.cuda->driver = 12040;
  EXPECT_EQ(found(machine, on_gpu),
            "error the driver supports CUDA up to 12.4, but this troupe is built with CUDA 13.0: 1 "
            "GPU of this node stays idle | update the driver to 580 or later, or run ./dev build "
            "--cuda=12\n");
  machine.cuda->runtime = 12080;  // any driver of a major version serves all of it
  EXPECT_THAT(found(machine, on_gpu), IsEmpty());
  machine.cuda->driver = 11080;  // no build is for CUDA 11
  EXPECT_THAT(found(machine, on_gpu), HasSubstr("| update the driver to 525 or later\n"));
  machine.cuda->driver = 0;
  EXPECT_THAT(found(machine, on_gpu), HasSubstr("error no NVIDIA driver was found"));
}

TEST(DoctorGpu, FlagsAGpuThatTheBuildHasNoKernelsFor) {
  Machine machine = with_gpu();
  auto& gpu = machine.cuda->gpus.front();
  gpu = {.name = "Tesla V100", .architecture = 70};
  EXPECT_THAT(found(machine, on_gpu),
              AllOf(HasSubstr("error Tesla V100 has compute capability 7.0 (sm_70), but this "
                              "troupe has kernels for sm_80, "
                              "sm_90 and PTX of sm_120 only"),
                    HasSubstr("-DTROUPE_CUDA_ARCHITECTURES=70-real and CUDA 12")));
  const auto runs = [&](int architecture) {
    gpu.architecture = architecture;
    return found(machine, on_gpu).empty();
  };
  EXPECT_TRUE(runs(89)) << "later ones of the same tens";
  EXPECT_FALSE(runs(75));
  EXPECT_FALSE(runs(100));
  EXPECT_TRUE(runs(120)) << "from PTX";
  EXPECT_TRUE(runs(130)) << "from PTX";
  machine.cuda->architectures.clear();
  machine.cuda->ptx = 0;
  EXPECT_TRUE(runs(75)) << "a build that does not say what it is for";
}

TEST(DoctorGpu, FlagsGpusThatAVariableHides) {
  Machine machine = with_gpu();
  machine.cuda->gpus.clear();
  machine.cuda->failure = Error(ErrorCode::unsupported, "no CUDA-capable device", "ask for one");
  EXPECT_EQ(found(machine, on_gpu),
            "error no CUDA-capable device: 1 GPU of this node stays idle | ask for one\n");
  machine.environment = {{"CUDA_VISIBLE_DEVICES", "7"}};
  EXPECT_EQ(found(machine, automatic),
            "warning CUDA_VISIBLE_DEVICES=7 hides all GPUs: 1 GPU of this node stays idle | unset "
            "CUDA_VISIBLE_DEVICES\n");
  EXPECT_TRUE(check_gpus(machine, automatic).front().of_process);
}

TEST(DoctorGpu, FlagsComputeModesThatForbidTheRun) {
  Machine machine = with_gpu();
  machine.cuda->gpus.front().mode = GpuSurvey::Gpu::Mode::one_process;
  EXPECT_THAT(found(machine, on_gpu), IsEmpty());
  machine.world = World{.size = 2, .local_size = 2};
  EXPECT_THAT(found(machine, on_gpu),
              HasSubstr("error NVIDIA H100 is in compute mode Exclusive_Process, but 2 processes "
                        "would use it"));
  machine.cuda->gpus.front().mode = GpuSurvey::Gpu::Mode::none;
  machine.world.reset();
  EXPECT_THAT(found(machine, automatic),
              HasSubstr("warning NVIDIA H100 is in compute mode Prohib"));
}

TEST(DoctorGpu, FlagsProcessesThatCannotExchangeTensorsOfGpus) {
  Machine machine = with_gpu();
  machine.world = World{.size = 2, .local_size = 1, .nodes = 2};
  const std::string text =
      "2 processes, but a run on a GPU has one process: 1 GPU of this node "
      "stays idle | start one process, or -r device=cpu\n";
  EXPECT_EQ(found(machine, on_gpu), "error " + text);
  EXPECT_EQ(found(machine, automatic), "warning " + text) << "it computes on the CPU";
  EXPECT_THAT(found(machine, on_cpu), IsEmpty());
  Demands needs_gpu = automatic;
  needs_gpu.products = DType::f16;
  needs_gpu.cuda_graphs = true;
  EXPECT_THAT(text_of(check_precision(machine, needs_gpu)), HasSubstr("16-mixed, which needs"));
  EXPECT_THAT(found(machine, needs_gpu), HasSubstr("warning cuda_graphs has no effect"));
  machine.environment["SLURM_GPUS_ON_NODE"] = "4";
  machine.cuda->gpus.front().mode = GpuSurvey::Gpu::Mode::one_process;
  EXPECT_THAT(found(machine, automatic),
              testing::AllOf(HasSubstr("4 allocated GPUs stay idle"), Not(HasSubstr("uses one")),
                             Not(HasSubstr("Exclusive"))));
}

TEST(DoctorGpu, FlagsOptionsThatNeedAGpuWhereNoneComputes) {
  Demands demands = automatic;
  demands.cuda_graphs = demands.resident = demands.nondeterministic = true;
  EXPECT_THAT(found(with_gpu(), demands), IsEmpty());
  Machine without = with_gpu();
  without.cuda.reset();
  without.gpus_of_node = 0;
  EXPECT_EQ(found(without, demands),
            "warning cuda_graphs has no effect on the CPU | -r cuda_graphs=false, or a GPU\n"
            "warning data.resident has no effect on the CPU | -r data.resident=false, or a "
            "GPU\n"
            "warning deterministic false has no effect on the CPU | -r deterministic=true, or a "
            "GPU\n");
}

TEST(DoctorGpu, FlagsAVariableThatOverridesThePrecision) {
  Machine machine = with_gpu();
  machine.environment["NVIDIA_TF32_OVERRIDE"] = "1";
  EXPECT_THAT(found(machine, on_gpu),
              HasSubstr("NVIDIA_TF32_OVERRIDE=1 makes f32 products use TF32"));
  machine.environment["NVIDIA_TF32_OVERRIDE"] = "0";
  EXPECT_THAT(found(machine, on_gpu), IsEmpty());
  Demands with_tf32 = on_gpu;
  with_tf32.tf32 = true;
  EXPECT_THAT(found(machine, with_tf32), HasSubstr("NVIDIA_TF32_OVERRIDE=0 forbids the TF32"));
}

TEST(DoctorGpu, NeedsNoInstructionsOfTheProcessorWhereAGpuComputes) {
  Machine machine = with_gpu();
  Demands mixed = automatic;
  mixed.products = DType::bf16;
  EXPECT_THAT(text_of(check_precision(machine, mixed)), IsEmpty());
  mixed.device = DeviceChoice::cpu;
  EXPECT_THAT(text_of(check_precision(machine, mixed)), HasSubstr("neither AVX-512 BF16 nor AMX"));
}

TEST(DoctorGpu, FlagsPrecisionsOfGpusWhereTheCpuComputes) {
  const auto of_precision = [](const Machine& machine, const Demands& demands) {
    return text_of(check_precision(machine, demands));
  };
  Demands demands = automatic;
  demands.products = DType::f16;
  EXPECT_THAT(of_precision(with_gpu(), demands), IsEmpty());
  EXPECT_THAT(of_precision(Machine{}, demands),
              AllOf(HasSubstr("error precision is 16-mixed"), Not(HasSubstr("bf16-mixed"))));
  Machine with_bf16;
  with_bf16.features = {"avx512_bf16"};
  EXPECT_THAT(of_precision(with_bf16, demands), HasSubstr("-r precision=32-true or bf16-mixed"));
  demands.device = DeviceChoice::cuda;
  EXPECT_THAT(of_precision(Machine{}, demands), IsEmpty()) << "that there is no GPU is told";
}

TEST(DoctorGpu, FlagsAGpuThatDoesNotRunAKernel) {
  Machine machine = with_gpu();
  machine.gpu_error = Error(ErrorCode::unsupported, "no GPU can be used: out of memory on cuda:0",
                            "set `device` to cpu");
  EXPECT_THAT(found(machine, on_gpu),
              AllOf(HasSubstr("error no GPU can be used: out of memory on cuda:0"),
                    HasSubstr("set device to cpu")));
  EXPECT_THAT(found(machine, automatic), HasSubstr("warning no GPU can be used"));
  EXPECT_THAT(found(machine, on_cpu), IsEmpty());
  EXPECT_FALSE(machine.has_usable_gpu());
}

TEST(DoctorGpu, TakesALibraryThatDoesNotSayForOneWithKernels) {
  Machine machine = with_gpu();
  machine.cuda->architectures.clear();
  machine.cuda->ptx = 0;
  EXPECT_TRUE(machine.has_usable_gpu());
  EXPECT_THAT(found(machine, on_gpu), IsEmpty());
}

}  // namespace
}  // namespace troupe

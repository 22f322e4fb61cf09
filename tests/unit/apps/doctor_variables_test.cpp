// The doctor's checks of variables and of the world that they describe.
#include <gmock/gmock.h>

#include "apps/doctor/checks.h"
#include "apps/doctor/known_variables.h"
#include "tests/unit/apps/machine.h"

namespace troupe {
namespace {

using test::healthy;
using test::text_of;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Doctor, KnowsWhatAMisspeltVariableWasMeantToBe) {
  const std::pair<const char*, const char*> cases[] = {
      {"NCCL_SOKET_IFNAME", "NCCL_SOCKET_IFNAME"},
      {"NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"},
      {"NCCL_NCHANNELS_PER_PEER", "NCCL_NCHANNELS_PER_NET_PEER"},
      {"OMP_NUM_THREAD", "OMP_NUM_THREADS"},
      {"OMP_THREADS_NUM", "OMP_NUM_THREADS"},
      {"omp_num_threads", "OMP_NUM_THREADS"},
      {"FI_CXI_RX_MACH_MODE", "FI_CXI_RX_MATCH_MODE"},
      {"CUDA_VISABLE_DEVICES", "CUDA_VISIBLE_DEVICES"},
      {"TORCH_NCCL_ASYNC_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
      {"GLOO_SOCKET_IFNAM", "GLOO_SOCKET_IFNAME"},
      {"MASTER_PRT", "MASTER_PORT"},
      {"SLURM_CPUS_PER_TASKS", "SLURM_CPUS_PER_TASK"},
      {"SBATCH_PARTITON", "SBATCH_PARTITION"},
      {"TROUPE_CORDINATOR", "TROUPE_COORDINATOR"}};
  for (const auto& [wrong, right] : cases) EXPECT_EQ(meant_variable(wrong), right) << wrong;
}

TEST(Doctor, LeavesOtherVariablesAlone) {
  for (const auto& family : variable_families())
    for (const std::string_view name : family.names) {
      EXPECT_EQ(meant_variable(name), std::nullopt) << name;
      EXPECT_TRUE(name.starts_with(family.prefix)) << name;
    }
  for (const char* name :
       {"PATH", "HOME", "NCCL_", "FI_X", "NCCL_SOMETHING_OF_THE_SITE", "CUDA_DIR", "OMP_FOO",
        "SLURM_JOB_UID", "SLURM_SPANK_UENV", "TORCH_MY_PLUGIN", ""})
    EXPECT_EQ(meant_variable(name), std::nullopt) << name;
  EXPECT_EQ(meant_variable("NCCL_" + std::string(100'000, 'A')), std::nullopt);
}

TEST(Doctor, FlagsVariablesThatBeginAsItsOwnAndThatNothingReads) {
  Machine machine = healthy();
  machine.environment["TROUPE_RUN_ID"] = "7";
  machine.environment["TROUPE_TRANSPORT"] = "gloo";
  EXPECT_EQ(text_of(check_misspelt(machine)).find("TROUPE_RUN_ID"), std::string::npos);
  EXPECT_THAT(
      text_of(check_misspelt(machine)),
      HasSubstr("warning nothing reads TROUPE_TRANSPORT | give options in the options file"));
}

TEST(Doctor, FlagsTheMisspellingOfTheAlliancesScripts) {
  Machine machine = healthy();
  machine.environment["TORCH_NCCL_ASYNC_HANDLING"] = "1";
  EXPECT_THAT(
      text_of(check_misspelt(machine)),
      HasSubstr("warning nothing reads TORCH_NCCL_ASYNC_HANDLING (the word ERROR is missing) "
                "| write TORCH_NCCL_ASYNC_ERROR_HANDLING"));
  machine.environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  EXPECT_THAT(text_of(check_misspelt(machine)), HasSubstr("is set as well"));
  machine.environment["PYTORCH_CUDA_ALLOC_CNF"] = "x";
  EXPECT_THAT(text_of(check_misspelt(machine)), HasSubstr("PYTORCH_CUDA_ALLOC_CONF"));
}

TEST(Doctor, FlagsVariablesThatContradictEachOther) {
  const auto found = [](Environment::Variables variables) {
    Machine machine = healthy();
    machine.environment = std::move(variables);
    return text_of(check_contradictions(machine));
  };
  EXPECT_THAT(found({{"NCCL_NET", "IB"}, {"NCCL_IB_DISABLE", "1"}}),
              HasSubstr("warning NCCL_NET=IB"));
  EXPECT_THAT(found({{"NCCL_IB_DISABLE", "yes"}}),
              HasSubstr("NCCL_IB_DISABLE=yes is not a number: NCCL ignores it"));
  EXPECT_THAT(found({{"NCCL_NET", "IB"}, {"NCCL_IB_DISABLE", "0"}}), IsEmpty());
  EXPECT_THAT(found({{"NCCL_IB_HCA", "mlx5"}, {"NCCL_IB_DISABLE", "1"}}),
              HasSubstr("NCCL_IB_HCA=mlx5 has no effect with NCCL_IB_DISABLE=1"));
  EXPECT_THAT(found({{"OMP_NUM_THREADS", "two"}}),
              HasSubstr("OMP_NUM_THREADS=two is not a number: OpenMP ignores it"));
  EXPECT_THAT(found({{"OMP_NUM_THREADS", "4,2"}}), IsEmpty());
  EXPECT_THAT(found({{"OMP_NUM_THREADS", " 2"}}), IsEmpty());
  EXPECT_THAT(found({{"FI_PROVIDER", "tcp"}, {"FI_CXI_RX_MATCH_MODE", "software"}}),
              HasSubstr("FI_PROVIDER=cxi"));
  EXPECT_THAT(found({{"FI_PROVIDER", "cxi"}, {"FI_CXI_RX_MATCH_MODE", "software"}}), IsEmpty());
  EXPECT_THAT(found({{"CUDA_CACHE_DISABLE", "1"}, {"CUDA_CACHE_PATH", "/tmp"}}),
              HasSubstr("CUDA_CACHE_PATH has no effect"));
  EXPECT_THAT(found({{"MPICH_GPU_SUPPORT_ENABLED", "1"}, {"NCCL_NET", "AWS Libfabric"}}),
              HasSubstr("deadlock"));
  EXPECT_THAT(found({{"OMP_PROC_BIND", "false"}, {"OMP_PLACES", "cores"}}),
              HasSubstr("OMP_PLACES"));
  EXPECT_THAT(found({{"RANK", "0"}}), HasSubstr("error RANK is set, but WORLD_SIZE is not"));
  EXPECT_THAT(found({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), IsEmpty());
}

TEST(Doctor, FlagsLL128OnSlingshotWithGraceHopper) {
  Machine machine = healthy();
  machine.architecture = "aarch64";
  machine.environment["NCCL_PROTO"] = "LL128,Simple";
  EXPECT_THAT(text_of(check_contradictions(machine)), HasSubstr("corrupts data"));
  machine.environment["NCCL_PROTO"] = "^LL128";
  EXPECT_THAT(text_of(check_contradictions(machine)), IsEmpty());
}

TEST(Doctor, FlagsAddressesThatEveryNodeTakesForItself) {
  Machine machine = healthy();
  for (const char* address : {"127.0.0.1", "localhost", "::1"}) {
    machine.environment["MASTER_ADDR"] = address;
    EXPECT_THAT(text_of(check_world(machine, {})), HasSubstr("error MASTER_ADDR")) << address;
  }
  machine.environment["MASTER_ADDR"] = "node0";
  for (const char* endpoint : {"tcp://127.0.0.1:29400", "tcp://[::1]:29400"}) {
    machine.environment["TROUPE_COORDINATOR"] = endpoint;
    EXPECT_THAT(text_of(check_world(machine, {})), HasSubstr("error TROUPE_COORDINATOR"))
        << endpoint;
  }
  machine.world->nodes = 1;
  EXPECT_THAT(text_of(check_world(machine, {})), IsEmpty());
}

TEST(Doctor, FlagsWhatProcessesCannotMeetBy) {
  const auto found = [](const char* name, const char* value) {
    Machine machine = healthy();
    machine.environment[name] = value;
    return text_of(check_world(machine, {}));
  };
  EXPECT_THAT(found("TROUPE_COORDINATOR", "nonsense"),
              HasSubstr("error TROUPE_COORDINATOR is nonsense, which is not an address"));
  EXPECT_THAT(found("TROUPE_COORDINATOR", "tcp://node0:29400"), IsEmpty());
  EXPECT_THAT(found("TROUPE_JOB_KEY", "short-secret"),
              AllOf(HasSubstr("error "), HasSubstr("key"), Not(HasSubstr("short-secret"))));
  EXPECT_THAT(found("TROUPE_JOB_KEY", std::string(64, '7').c_str()), IsEmpty());
  Machine machine = healthy();
  machine.rendezvous_error = Error(ErrorCode::io, "the job file cannot be written", "another");
  EXPECT_EQ(text_of(check_world(machine, {})), "error the job file cannot be written | another\n");
}

TEST(Doctor, FlagsSharedMemoryBetweenNodes) {
  Machine machine = healthy();
  Demands demands;
  demands.known = true;
  demands.work = {.pipeline = machine.world->size, .data = 1};
  demands.transport = "shm";
  machine.world->nodes = 1;
  EXPECT_THAT(text_of(check_world(machine, demands)), IsEmpty());
  machine.world->nodes = 2;
  EXPECT_THAT(text_of(check_world(machine, demands)),
              HasSubstr("error parallel.transport: shm, but the world has 2 nodes"));
}

TEST(Doctor, FlagsMoreProcessesThanTheRunHasWorkFor) {
  Demands demands{.work = {.pipeline = 2, .data = 1, .micro_batches = 8, .batch_size = 8},
                  .known = true};
  EXPECT_EQ(
      text_of(check_world(healthy(), demands)),
      "error 4 processes, but parallel.pipeline 2 × parallel.data 1 allows at most 2 processes "
      "| start 2 "
      "processes, or give -r parallel.data=2\n");
  demands.work.batch_size = demands.work.micro_batches = 1;
  EXPECT_THAT(text_of(check_world(healthy(), demands)), HasSubstr("| start 2 processes\n"));
  demands.work.data = 4;
  EXPECT_THAT(text_of(check_world(healthy(), demands)), IsEmpty());
}

TEST(Doctor, DoesNotFailARunWhoseStagesAreNotTheSameForAll) {
  Machine machine = healthy();
  machine.world->size = 3;
  const Demands demands{.work = {.pipeline = 4, .blocks = 6}, .known = true};
  EXPECT_EQ(text_of(check_world(machine, demands)),
            "warning 4 stages over 3 processes: 2 in some, 1 in others | start 4 processes, or "
            "give -r parallel.pipeline=3\n");
  EXPECT_THAT(text_of(check_cores(machine,
                                  {.work = {.pipeline = 4}, .intra_op_threads = 3, .known = true})),
              HasSubstr("2 stages with 3 threads"));
}

TEST(Doctor, PassesOnWhatIsWrongWithTheLaunchersVariables) {
  Machine machine = healthy();
  machine.world.reset();
  machine.world_error = Error(ErrorCode::usage, "RANK is 9 of 4", "let srun set it");
  EXPECT_EQ(text_of(check_world(machine, {})), "error RANK is 9 of 4 | let srun set it\n");
}

}  // namespace
}  // namespace troupe

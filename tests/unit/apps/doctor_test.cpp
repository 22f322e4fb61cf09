// The doctor's checks of a machine, on machines that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/doctor/checks.h"
#include "tests/unit/apps/machine.h"
#include "tests/unit/apps/ran.h"

namespace troupe {
namespace {

using test::healthy;
using test::text_of;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Doctor, FindsNothingWhereAllIsWell) {
  EXPECT_EQ(text_of(check_all(healthy(), {})), "");
  Demands demands{.work = {.pipeline = 2, .data = 2}, .known = true};
  demands.interface = "hsn0";
  EXPECT_EQ(text_of(check_all(healthy(), demands)), "");
}

TEST(Doctor, FlagsMoreThreadsThanCores) {
  Machine machine = healthy();
  machine.environment["OMP_NUM_THREADS"] = "64";
  EXPECT_THAT(text_of(check_cores(machine, {})),
              HasSubstr("OMP_NUM_THREADS is 64, but this process has 4 cores (2 processes"));
  machine.environment["OMP_NUM_THREADS"] = "2,8";
  EXPECT_THAT(text_of(check_cores(machine, {})), IsEmpty());
  machine.environment["OMP_NUM_THREADS"] = "many";
  EXPECT_THAT(text_of(check_cores(machine, {})), IsEmpty());
  const Demands demands{.work = {.pipeline = 2, .data = 4}, .intra_op_threads = 3, .known = true};
  EXPECT_THAT(text_of(check_cores(machine, demands)), HasSubstr("2 stages with 3 threads"));
  machine.world.reset();
  machine.environment.erase("SLURM_JOB_ID");
  const Demands deep{.work = {.pipeline = 9}, .intra_op_threads = 1, .known = true};
  ASSERT_FALSE(check_cores(machine, deep).empty());
  EXPECT_EQ(check_cores(machine, deep).back().remedy, "-r parallel.pipeline=4");
}

TEST(Doctor, FlagsMoreActorThreadsThanCores) {
  const Demands demands{.actor_threads = 16, .intra_op_threads = 1, .known = true};
  EXPECT_THAT(text_of(check_cores(healthy(), demands)),
              HasSubstr("parallel.actor_threads 16 × parallel.intra_op_threads 1 in a process that "
                        "has 4 cores | -r parallel.actor_threads=4"));
}

TEST(Doctor, FlagsCoresThatExplicitNumbersOfThreadsLeaveIdle) {
  const Machine machine = healthy();  // 4 cores for each of 2 processes
  const auto found = [&](std::int64_t threads, std::int64_t actors) {
    return text_of(check_cores(machine, {.work = {.pipeline = 2},
                                         .actor_threads = actors,
                                         .intra_op_threads = threads,
                                         .known = true}));
  };
  EXPECT_THAT(found(1, 0), HasSubstr("3 of 4 cores idle: 1 actor thread of 1 intra-op thread | -r "
                                     "parallel.intra_op_threads=auto"));
  EXPECT_THAT(found(4, 0), IsEmpty());
  EXPECT_THAT(found(0, 0), IsEmpty());
}

TEST(Doctor, SuggestsInterfacesThatAreUpAndHaveAnAddress) {
  Machine machine = healthy();
  machine.interfaces = {{"lo"}, {"ifb0", false, false}, {"eth0"}};
  machine.environment["NCCL_SOCKET_IFNAME"] = "ib0";
  EXPECT_THAT(text_of(check_interfaces(machine, {})), HasSubstr("such as eth0"));
}

TEST(Doctor, NamesEveryCheckThatItMakes) {
  const auto seen = observations(healthy(), {});
  const auto names = [&](const Finding& finding) {
    return std::ranges::find(seen, finding.check, &Observation::check) != seen.end();
  };
  Machine ill = healthy();
  ill.open_files = 8;
  ill.cores = 1;
  ill.environment["OMP_NUM_THREAD"] = "4";
  ill.folders = {{"TMPDIR", "/tmp", "lustre"}};
  const Findings findings = check_all(ill, {});
  EXPECT_GE(findings.size(), 4u);
  for (const Finding& finding : findings) EXPECT_TRUE(names(finding)) << finding.check;
}

TEST(Doctor, FlagsAQuotaBelowWhatCanBeSeen) {
  Machine machine = healthy();
  machine.quota = 2.5;
  EXPECT_THAT(text_of(check_cores(machine, {})), HasSubstr("allows 2.5 CPUs of 8"));
  machine.quota = 8;
  EXPECT_THAT(text_of(check_cores(machine, {})), IsEmpty());
}

TEST(Doctor, FlagsCoresThatSrunDidNotTakeFromSbatch) {
  Machine machine = healthy();
  machine.affinity = 1;
  machine.environment["SLURM_CPUS_PER_TASK"] = "8";
  EXPECT_THAT(text_of(check_cores(machine, {})), HasSubstr("SRUN_CPUS_PER_TASK"));
}

TEST(Doctor, FlagsAProgramForAnotherProcessor) {
  Machine machine = healthy();
  machine.compiled_for = {"avx2", "avx512f"};
  EXPECT_THAT(text_of(check_architecture(machine)),
              HasSubstr("error this troupe is compiled for avx512f"));
}

TEST(Doctor, FlagsAProcessorWithoutTheInstructionsForThePrecision) {
  Machine machine = healthy();
  const Demands mixed{.products = DType::bf16, .known = true};
  EXPECT_THAT(text_of(check_precision(machine, {})), IsEmpty());
  EXPECT_THAT(text_of(check_precision(machine, mixed)),
              AllOf(HasSubstr("error precision is bf16-mixed"), HasSubstr("AVX-512 BF16")));
  EXPECT_THAT(text_of(check_all(machine, mixed)), HasSubstr("precision is bf16-mixed"));
  for (const char* feature : {"avx512_bf16", "amx_bf16"}) {
    machine = healthy();
    machine.features.emplace_back(feature);
    EXPECT_THAT(text_of(check_precision(machine, mixed)), IsEmpty()) << feature;
  }
}

TEST(Doctor, FlagsCachesOnFileSystemsThatAllNodesShare) {
  Machine machine = healthy();
  machine.folders = {{"TMPDIR", "/scratch/tmp", "lustre"},
                     {"CUDA_CACHE_PATH", "/home/me/.nv", "nfs"},
                     {"XDG_CACHE_HOME", "/local", "local"},
                     {"TRITON_HOME", "/gone", ""}};
  const std::string text = text_of(check_folders(machine));
  EXPECT_THAT(text, HasSubstr("TMPDIR is /scratch/tmp on lustre"));
  EXPECT_THAT(text, HasSubstr("CUDA_CACHE_DISABLE=1"));
  EXPECT_THAT(text, HasSubstr("TRITON_HOME is /gone, which does not exist"));
  EXPECT_THAT(text, Not(HasSubstr("/local")));
}

TEST(Doctor, FlagsInterfacesThatDoNotExistAsTheirReadersMatchThem) {
  Machine machine = healthy();
  const auto found = [&](const char* variable, const char* value) {
    machine.environment = {{variable, value}};
    return text_of(check_interfaces(machine, {}));
  };
  EXPECT_THAT(found("NCCL_SOCKET_IFNAME", "hsn"), IsEmpty());  // a prefix
  EXPECT_THAT(found("NCCL_SOCKET_IFNAME", "^docker0"), IsEmpty());
  EXPECT_THAT(found("NCCL_SOCKET_IFNAME", "hsn0:9000,hsn1"), IsEmpty());
  EXPECT_THAT(found("NCCL_SOCKET_IFNAME", "=hsn"),
              HasSubstr("warning NCCL_SOCKET_IFNAME asks for hsn,"));
  EXPECT_THAT(found("GLOO_SOCKET_IFNAME", "hsn"), HasSubstr("such as hsn0"));
  EXPECT_THAT(found("NCCL_SOCKET_IFNAME", "ib0"),
              HasSubstr("asks for ib0, but node0 has lo, eth0, hsn0, hsn1; this troupe does not"));
  machine.environment.clear();
  EXPECT_THAT(text_of(check_interfaces(machine, {.interface = "eth9"})),
              HasSubstr("error parallel.interface asks for eth9"));
  machine.interfaces[1].up = false;
  EXPECT_THAT(text_of(check_interfaces(machine, {.interface = "eth0"})), HasSubstr("is down"));
  EXPECT_THAT(found("GLOO_SOCKET_IFNAME", "eth0"), HasSubstr("warning eth0"));
  machine.interfaces.push_back({"hsn0.561"});
  EXPECT_THAT(found("NCCL_SOCKET_IFNAME", "hsn"), HasSubstr("VLAN hsn0.561"));
}

TEST(Doctor, FailsNoRunForVariablesThatThisProgramDoesNotRead) {
  Machine machine = healthy();
  machine.environment = {{"NCCL_SOCKET_IFNAME", "ib0"},
                         {"GLOO_SOCKET_IFNAME", "eth9"},
                         {"NCCL_NET", "IB"},
                         {"NCCL_IB_DISABLE", "1"}};
  const auto errors = [&] {
    const Findings findings = check_all(machine, {});
    EXPECT_EQ(findings.size(), 3u) << text_of(findings);
    return std::ranges::count(findings, Finding::Severity::error, &Finding::severity);
  };
  EXPECT_EQ(errors(), 0);
  machine.nccl = true;  // but without what is PyTorch's
  EXPECT_EQ(errors(), 2);
}

TEST(Doctor, FlagsProcessesThatShareCores) {
  Machine machine = healthy();
  machine.cores = machine.node_cores = 1;
  machine.environment.clear();
  Demands demands{.work = {.pipeline = 4}};
  EXPECT_THAT(text_of(check_cores(machine, demands)), IsEmpty());
  demands.known = true;
  EXPECT_EQ(text_of(check_cores(machine, demands)),
            "warning 2 processes of 1 thread share 1 core of this node | start 1 process, or give "
            "the job 2 cores\n");
  machine.node_cores = 2;
  EXPECT_THAT(text_of(check_cores(machine, demands)), IsEmpty());
}

TEST(Doctor, TellsWhatEachCheckHasSeenInTwoColumns) {
  const Ran ran = run_troupe({"doctor"});
  EXPECT_THAT(ran.out, HasSubstr("\narchitecture  "));
  EXPECT_THAT(ran.out, HasSubstr("checked, no findings"));
  Machine machine = healthy();
  const Demands demands{.work = {.pipeline = 4}, .known = true};
  const auto seen = observations(machine, demands);
  const auto cores = std::ranges::find(seen, "cores", &Observation::check);
  ASSERT_NE(cores, seen.end());
  EXPECT_EQ(cores->seen, "4 for this process, 1 stage with 4 threads");
}

TEST(Doctor, FlagsLimitsThatARunMeets) {
  Machine machine = healthy();
  machine.world->size = 1000;
  machine.open_files = 1024;
  EXPECT_THAT(text_of(check_limits(machine)), HasSubstr("error this process may open 1024 files"));
  machine = healthy();
  machine.locked_memory = 65536;
  EXPECT_THAT(text_of(check_limits(machine)), HasSubstr("may lock 64 KiB"));
  machine.interfaces = {{"lo"}, {"eth0"}};
  EXPECT_THAT(text_of(check_limits(machine)), IsEmpty());
  machine.clock_synchronised = false;
  EXPECT_THAT(text_of(check_limits(machine)), HasSubstr("clock"));
}

TEST(Doctor, ComparesWithWhatAClustersJobsNeed) {
  const ClusterProfile olivia = find_profile("olivia");
  Machine machine = healthy();
  machine.environment["SLURM_GPUS_ON_NODE"] = "4";
  machine.architecture = "aarch64";
  EXPECT_THAT(text_of(check_cluster(machine, olivia)), HasSubstr("NCCL_PROTO is not set"));
  machine.environment["NCCL_PROTO"] = "LL128";
  EXPECT_THAT(text_of(check_cluster(machine, olivia)),
              HasSubstr("NCCL_PROTO is LL128, but the profile of Olivia"));
  for (const auto& line : olivia.environment) machine.environment[line.name] = line.text;
  EXPECT_EQ(text_of(check_cluster(machine, olivia)), "");
  machine.architecture = "riscv64";
  EXPECT_THAT(text_of(check_cluster(machine, olivia)),
              HasSubstr("error this troupe is built for riscv64"));
}

TEST(Doctor, WarnsOnALoginNodeOfGpuNodesWithAnotherProcessor) {
  const ClusterProfile olivia = find_profile("olivia");  // x86_64 without GPUs, aarch64 with GPUs
  Machine machine = healthy();
  machine.world.reset();
  machine.architecture = "x86_64";
  EXPECT_THAT(text_of(check_cluster(machine, olivia)),
              HasSubstr("warning this troupe is built for x86_64, but the nodes gh200 of Olivia "
                        "(Sigma2) are aarch64"));
  machine.architecture = "aarch64";
  EXPECT_EQ(text_of(check_cluster(machine, olivia)), "");
}

TEST(Doctor, PutsErrorsFirst) {
  Machine machine = healthy();
  machine.environment["OMP_NUM_THREADS"] = "64";
  machine.open_files = 10;
  const Findings findings = check_all(machine, {});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].severity, Finding::Severity::error);
  EXPECT_EQ(findings[1].check, "cores");
}

TEST(Doctor, LooksAtThisMachineAndTellsItAsJson) {
  const Machine machine = observe(false);
  EXPECT_GE(machine.cores, 1);
  EXPECT_FALSE(machine.architecture.empty());
  EXPECT_THAT(machine.interfaces, Contains(testing::Field(&Machine::Interface::name, "lo")));
  const Ran ran = run_troupe({"doctor", "--json"});
  const auto document = nlohmann::json::parse(ran.out);
  EXPECT_EQ(document.at("ok").get<bool>(), ran.code == 0);
  EXPECT_TRUE(document.at("findings").is_array());
}

}  // namespace
}  // namespace troupe

#include "runtime/world/world.h"

#include <gmock/gmock.h>

#include "runtime/error.h"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Variables = std::map<std::string, std::string>;

Environment with(const Variables& variables, Environment::Process process = {}) {
  Environment environment({}, process);
  for (const auto& [name, value] : variables) environment.set(name, value);
  return environment;
}

/// The error that reading these variables ends with, message and remedy.
std::string error_of(const Variables& variables) {
  try {
    const auto world = world_from_environment(with(variables));
    return world ? "a world of " + std::to_string(world->size) : "no world";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_FALSE(error.remedy().empty());
    return error.what();
  }
}

const Variables torchrun{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"GROUP_RANK", "1"},
                         {"GROUP_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "node7"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "abc/1"},
                         {"TORCHELASTIC_RESTART_COUNT", "2"}};

// What srun -N2 -n4 sets for the last task: three tasks on node0, one on node1.
const Variables srun{{"SLURM_PROCID", "3"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_NTASKS", "4"},
                     {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                     {"SLURM_STEP_NODELIST", "node[0-1]"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_ID", "17"},
                     {"SLURM_CLUSTER_NAME", "site"},
                     {"SLURM_JOB_NAME", "train"}};

const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"OMPI_MCA_orte_num_nodes", "1"},
                       {"PMIX_NAMESPACE", "1840513025"},
                       {"PMIX_RANK", "1"}};

Variables changed(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

TEST(World, IsNoneWithoutALauncher) {
  EXPECT_FALSE(world_from_environment(with({})));
  EXPECT_FALSE(world_from_environment(with({{"RANK", ""}, {"WORLD_SIZE", ""}})));
  EXPECT_FALSE(world_from_environment(with({{"WORLD_SIZE", "1"}})));
}

TEST(World, ReadsTorchrunsVariables) {
  const auto world = world_from_environment(with(torchrun)).value();
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 8);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 4);
  EXPECT_EQ(world.node, 1);
  EXPECT_EQ(world.nodes, 2);
  EXPECT_EQ(world.launcher, "torchrun");
  EXPECT_EQ(world.restart, 2);
  EXPECT_EQ(world.master_address, "node7");
  EXPECT_EQ(world.master_port, 29500);
  EXPECT_EQ(world.run_id, "torchrun-abc_1-node7-29500-2");
}

TEST(World, KnowsItsOwnLauncher) {
  const auto world =
      world_from_environment(
          with(changed(torchrun, {{"TROUPE_RUN_ID", "demo"}, {"TROUPE_LAUNCHER", "own launch"}})))
          .value();
  EXPECT_EQ(world.launcher, "own launch");
  EXPECT_EQ(world.run_id, "demo-2");
}

TEST(World, ReadsASlurmStepWithUnevenNodes) {
  const auto world = world_from_environment(with(srun)).value();
  EXPECT_EQ(world.launcher, "slurm");
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.local_size, 1);
  EXPECT_EQ(world.node, 1);
  EXPECT_EQ(world.nodes, 2);
  EXPECT_THAT(world.hosts, ElementsAre("node0", "node1"));
  EXPECT_EQ(world.master_address, "node0");
  EXPECT_EQ(world.run_id, "slurm-site-17.0-0");
  const auto again = world_from_environment(with(changed(srun, {{"SLURM_RESTART_COUNT", "1"}})));
  EXPECT_EQ(again->restart, 1);
  EXPECT_EQ(again->run_id, "slurm-site-17.0-1");
}

TEST(World, ReadsMpirunsVariables) {
  const auto world = world_from_environment(with(mpirun)).value();
  EXPECT_EQ(world.launcher, "openmpi");
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.node, 0);
  EXPECT_EQ(world.nodes, 1);
  EXPECT_EQ(world.run_id, "openmpi-1840513025");
}

TEST(World, LeavesTheNodeOpenWhereMpirunHasSeveral) {
  const auto world =
      world_from_environment(
          with(changed(mpirun, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_MCA_orte_num_nodes", "2"}})))
          .value();
  EXPECT_EQ(world.node, -1);
  EXPECT_EQ(world.nodes, 2);
}

TEST(World, IsMpirunsInsideASlurmStepThatStartsItsDaemons) {
  Variables both = mpirun;
  both.insert(srun.begin(), srun.end());
  EXPECT_EQ(world_from_environment(with(both))->launcher, "openmpi");
}

TEST(World, IsTorchrunsInsideASlurmStepThatStartsIt) {
  Variables both = torchrun;
  both.insert(srun.begin(), srun.end());
  EXPECT_EQ(world_from_environment(with(both))->launcher, "torchrun");
}

TEST(World, ReadsPmiWhereItTellsTheSize) {
  const auto world = world_from_environment(with({{"PMI_RANK", "2"},
                                                  {"PMI_SIZE", "4"},
                                                  {"PMI_LOCAL_RANK", "0"},
                                                  {"PMI_LOCAL_SIZE", "2"}}))
                         .value();
  EXPECT_EQ(world.launcher, "pmix");
  EXPECT_EQ(world.rank, 2);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.node, -1);
}

TEST(World, IsNoneInTheShellOfSalloc) {
  EXPECT_FALSE(world_from_environment(with({{"SLURM_JOB_ID", "2"},
                                            {"SLURM_JOB_NAME", "interactive"},
                                            {"SLURM_NTASKS", "4"},
                                            {"SLURM_TASKS_PER_NODE", "3,1"}})));
  // The shell of salloc with LaunchParameters=use_interactive_step is a step of its own kind.
  EXPECT_FALSE(world_from_environment(
      with(changed(srun, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_JOB_NAME", "interactive"}}))));
}

TEST(World, IsNoneInABatchScriptsOwnShell) {
  EXPECT_FALSE(world_from_environment(with({{"SLURM_JOB_ID", "1"},
                                            {"SLURM_JOB_NAME", "job.sh"},
                                            {"SLURM_PROCID", "0"},
                                            {"SLURM_LOCALID", "0"},
                                            {"SLURM_NODEID", "0"},
                                            {"SLURM_NTASKS", "4"},
                                            {"SLURM_TASKS_PER_NODE", "3,1"}})));
}

TEST(World, IsNoneInAnInteractiveShellThatSrunStarted) {
  const auto shell = changed(
      srun, {{"SLURM_JOB_NAME", "bash"}, {"SLURM_PTY_PORT", "37641"}, {"SLURM_TASK_PID", "6196"}});
  EXPECT_FALSE(world_from_environment(with(shell, {.pid = 6200, .has_terminal = true})));
  // srun --pty troupe: the task itself.
  EXPECT_TRUE(world_from_environment(with(shell, {.pid = 6196, .has_terminal = true})));
  // A step started from such a shell inherits the port, but has no terminal.
  EXPECT_TRUE(world_from_environment(with(shell, {.pid = 6200, .has_terminal = false})));
}

TEST(World, IsTheStepsInAnAllocationNamedInteractive) {
  EXPECT_EQ(world_from_environment(with(changed(srun, {{"SLURM_JOB_NAME", "interactive"}})))->size,
            4);
}

TEST(World, AcceptsVariablesThatRepeatTheSchedulers) {
  EXPECT_EQ(world_from_environment(with(changed(srun, {{"WORLD_SIZE", "4"}})))->launcher, "slurm");
  EXPECT_EQ(world_from_environment(with(changed(srun, {{"WORLD_SIZE", "4"}, {"RANK", "3"}})))->rank,
            3);
}

TEST(World, NamesAVariableThatContradictsTheScheduler) {
  EXPECT_THAT(error_of(changed(srun, {{"RANK", "0"}, {"WORLD_SIZE", "4"}})),
              testing::AllOf(HasSubstr("RANK=0"), HasSubstr("rank 3"), HasSubstr("unset RANK")));
  EXPECT_THAT(error_of(changed(srun, {{"WORLD_SIZE", "2"}})), HasSubstr("WORLD_SIZE=2"));
}

TEST(World, NamesTheMalformedVariable) {
  for (const char* value : {"x", "-1", "+1", " 1", "1 ", "1.0", "0x1", "99999999999", "\x01"}) {
    EXPECT_THAT(error_of(changed(torchrun, {{"RANK", value}})), HasSubstr("RANK=")) << value;
    EXPECT_THAT(error_of(changed(srun, {{"SLURM_PROCID", value}})), HasSubstr("SLURM_PROCID="));
    EXPECT_THAT(error_of(changed(mpirun, {{"OMPI_COMM_WORLD_SIZE", value}})),
                HasSubstr("OMPI_COMM_WORLD_SIZE="));
  }
  EXPECT_THAT(error_of(changed(torchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(error_of(changed(torchrun, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(error_of(changed(srun, {{"SLURM_STEP_TASKS_PER_NODE", "3(,1"}})), HasSubstr("3(,1"));
}

TEST(World, NamesWhatDoesNotFit) {
  EXPECT_THAT(error_of(changed(torchrun, {{"RANK", "8"}})), HasSubstr("RANK=8"));
  EXPECT_THAT(error_of(changed(torchrun, {{"LOCAL_RANK", "4"}})), HasSubstr("LOCAL_RANK=4"));
  EXPECT_THAT(error_of(changed(torchrun, {{"LOCAL_WORLD_SIZE", "9"}})),
              HasSubstr("LOCAL_WORLD_SIZE=9"));
  EXPECT_THAT(error_of(changed(torchrun, {{"GROUP_RANK", "2"}})), HasSubstr("GROUP_RANK=2"));
  EXPECT_THAT(error_of(changed(srun, {{"SLURM_STEP_TASKS_PER_NODE", "3,2"}})), HasSubstr("3,2"));
  EXPECT_THAT(error_of(changed(srun, {{"SLURM_NODEID", "2"}})), HasSubstr("SLURM_NODEID=2"));
  EXPECT_THAT(error_of(changed(srun, {{"SLURM_LOCALID", "1"}})), HasSubstr("SLURM_LOCALID=1"));
  EXPECT_THAT(error_of(changed(srun, {{"SLURM_STEP_NODELIST", "node[0-2]"}})),
              HasSubstr("node[0-2]"));
  EXPECT_THAT(error_of(changed(mpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}})),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE=3"));
}

TEST(World, NamesWhatIsLacking) {
  EXPECT_THAT(error_of({{"RANK", "0"}}), HasSubstr("not WORLD_SIZE"));
  EXPECT_THAT(error_of({{"WORLD_SIZE", "4"}}), HasSubstr("not RANK"));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}}), HasSubstr("not LOCAL_RANK"));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}),
              HasSubstr("not LOCAL_WORLD_SIZE"));
  EXPECT_THAT(error_of({{"PMIX_RANK", "0"}}), HasSubstr("PMIX_RANK=0"));
  EXPECT_THAT(error_of({{"OMPI_COMM_WORLD_RANK", "0"}}), HasSubstr("OMPI_COMM_WORLD_SIZE is not"));
}

TEST(World, MakesRunIdsThatCanNameFiles) {
  const auto world = world_from_environment(
      with(changed(torchrun, {{"TROUPE_RUN_ID", "../../etc/" + std::string(500, 'x')}})));
  EXPECT_EQ(world->run_id.find('/'), std::string::npos);
  EXPECT_LE(world->run_id.size(), 129u);
  EXPECT_EQ(file_name_of("."), "_.");
  EXPECT_EQ(file_name_of(""), "_");
  EXPECT_EQ(file_name_of("a/../b c-1.2_\n"), "a_.._b_c-1.2__");
  EXPECT_THAT(world_from_environment(with(mpirun))->hosts, IsEmpty());
}

}  // namespace
}  // namespace troupe

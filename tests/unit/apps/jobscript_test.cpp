// From a cluster's profile and a request to a job: what is chosen, what is refused, what is
// written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/jobscript/container.h"
#include "apps/jobscript/job.h"
#include "apps/jobscript/script.h"
#include "runtime/shell_text.h"
#include "tests/unit/apps/profile_folder.h"
#include "tests/unit/apps/ran.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// From a request and a shape to the text of a script.
class Jobscript : public ProfileFolder {
 protected:
  /// Of a run that computes on CPUs.
  static JobRequest request(std::int64_t nodes, seconds time) {
    JobRequest wanted;
    wanted.nodes = nodes;
    wanted.time = time;
    wanted.name = "run";
    wanted.account = "project_1";
    wanted.computes_on_gpus = false;
    return wanted;
  }
  /// With GPUs, which stay idle.
  static JobRequest request(std::int64_t nodes, seconds time, std::int64_t gpus) {
    JobRequest wanted = request(nodes, time);
    wanted.gpus_per_node = gpus;
    return wanted;
  }
  static JobRequest request_on_gpus(std::int64_t nodes) {
    JobRequest wanted = request(nodes, hours(1));
    wanted.computes_on_gpus = true;
    return wanted;
  }
  static JobShape shape(std::int64_t pipeline, std::int64_t data) {
    JobShape made;
    made.work = {.pipeline = pipeline,
                 .data = data,
                 .blocks = 4096,
                 .micro_batches = 4096,
                 .batch_size = 4096};
    made.file = "o.yaml";
    return made;
  }
  static std::string script(const std::string& cluster, const JobRequest& wanted,
                            const JobShape& made) {
    const JobLayout plan = lay_out_job(find_profile(cluster), wanted, made);
    return job_script(plan, wanted, {"troupe jobscript", "o.yaml", {}});
  }
};

TEST_F(Jobscript, SharesCoresAndMemoryInProportionToTheGpus) {
  file("small.yaml", small_profile);
  const std::string text = script("small", request(1, hours(1), 2), shape(2, 1));
  EXPECT_THAT(text, AllOf(HasSubstr("--partition=short"), HasSubstr("--ntasks-per-node=2"),
                          HasSubstr("--cpus-per-task=16"), HasSubstr("--gres=gpu:x1:2"),
                          HasSubstr("--mem=61G"), HasSubstr("--time=01:00:00")));
  const std::string four = script("small", request(2, hours(3), 4), shape(2, 4));
  EXPECT_THAT(four, AllOf(HasSubstr("--partition=long"), HasSubstr("--nodes=2"),
                          HasSubstr("--ntasks-per-node=4"), HasSubstr("--mem=122G")));
  EXPECT_THAT(script("small", request(1, hours(1), 1), shape(1, 1)), HasSubstr("--mem=31232M"));
}

TEST_F(Jobscript, WritesEachLineOnlyWhereItsConditionsHold) {
  file("small.yaml", small_profile);
  const std::string one = script("small", request(1, hours(1), 2), shape(2, 1));
  EXPECT_THAT(one, AllOf(HasSubstr("export ALWAYS=1 "), HasSubstr("# a reason"),
                         HasSubstr("export WITH_GPU=\"a b\""), Not(HasSubstr("AMONG_SEVERAL"))));
  EXPECT_THAT(script("small", request(2, hours(1), 4), shape(2, 4)), HasSubstr("AMONG_SEVERAL=2"));
  EXPECT_THAT(script("small", request(1, hours(1), 0), shape(2, 1)),
              AllOf(HasSubstr("--partition=cpu"), Not(HasSubstr("gres")),
                    Not(HasSubstr("WITH_GPU")), HasSubstr("ALWAYS")));
}

TEST_F(Jobscript, GivesCpuJobsTheCoresThatTheirStagesAndLoadersNeed) {
  file("small.yaml", small_profile);
  JobRequest cpu = request(2, hours(1), 0);
  JobShape made = shape(4, 1);
  made.intra_op_threads = 3;
  made.workers = 2;
  const JobLayout plan = lay_out_job(find_profile("small"), cpu, made);
  EXPECT_EQ(plan.processes, 2);
  EXPECT_EQ(plan.cores, 5);
  EXPECT_EQ(plan.memory, 20);
  cpu.tasks_per_node = 1;
  EXPECT_EQ(lay_out_job(find_profile("small"), cpu, made).cores, 8);  // two stages a process
}

TEST_F(Jobscript, LeavesForkingToTheLauncherWhereThatIsAskedFor) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(2, hours(1), 4);
  wanted.launcher = "launch";
  const std::string text = script("small", wanted, shape(2, 4));
  EXPECT_THAT(text, AllOf(HasSubstr("--ntasks-per-node=1 "), HasSubstr("--cpus-per-task=64"),
                          HasSubstr("--gres=gpu:x1:4"), HasSubstr("--nproc-per-node 4"),
                          HasSubstr("-- train o.yaml")));
}

TEST_F(Jobscript, RefusesMoreThanThePartitionsTake) {
  file("small.yaml", small_profile);
  const auto plan = [&](const JobRequest& wanted, const JobShape& made) {
    return refusal([&] { lay_out_job(find_profile("small"), wanted, made); });
  };
  EXPECT_THAT(plan(request(5, hours(1), 4), shape(4, 5)),
              AllOf(HasSubstr("short takes at most 4 nodes, not 5"),
                    HasSubstr("long takes at most 2 nodes, not 5")));
  EXPECT_THAT(plan(request(1, hours(50), 1), shape(1, 1)),
              AllOf(HasSubstr("at most 2-00:00:00"), HasSubstr("--time 2-00:00:00")));
  JobRequest wanted = request(1, hours(1));
  wanted.partition = "lng";
  EXPECT_THAT(plan(wanted, shape(1, 1)), HasSubstr("did you mean long?"));
  wanted.partition = "test";
  EXPECT_THAT(plan(wanted, shape(1, 1)), HasSubstr("test takes at most 00:10:00"));
  wanted = request(1, hours(1));
  wanted.gpus_per_node = 8;
  EXPECT_THAT(plan(wanted, shape(8, 1)), HasSubstr("--gpus-per-node 4 --nodes 2"));
  wanted.gpus_per_node = 2;
  wanted.cpus_per_task = 40;
  EXPECT_THAT(plan(wanted, shape(2, 1)), HasSubstr("--cpus-per-task 32"));
  wanted = request(1, hours(1));
  wanted.cpus_per_task = 1;
  EXPECT_THAT(plan(wanted, shape(64, 4)), HasSubstr("--nodes 8"));
  wanted = request(1, seconds(0));
  EXPECT_THAT(plan(wanted, shape(1, 1)), HasSubstr("--time"));
}

TEST_F(Jobscript, TakesTheCpuPartitionThatIsAskedForWithoutGpus) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1));
  wanted.partition = "cpu";
  EXPECT_EQ(lay_out_job(find_profile("small"), wanted, shape(2, 1)).gpus, 0);
}

TEST_F(Jobscript, TakesCpuNodesWhereNothingComputesOnGpus) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1));
  EXPECT_THAT(script("small", wanted, shape(2, 1)),
              AllOf(HasSubstr("--partition=cpu"), Not(HasSubstr("gres"))));
  wanted.gpus_per_node = 2;
  EXPECT_THAT(script("small", wanted, shape(2, 1)),
              AllOf(HasSubstr("--partition=short"), HasSubstr(", unused.\n")));
}

TEST_F(Jobscript, TakesOneGpuAndOneProcessForARunThatComputesOnIt) {
  file("small.yaml", small_profile);
  JobRequest wanted = request_on_gpus(1);
  EXPECT_THAT(script("small", wanted, shape(2, 1)),
              AllOf(HasSubstr("--partition=short"), HasSubstr("--ntasks-per-node=1 "),
                    HasSubstr("--cpus-per-task=16"), HasSubstr("--gres=gpu:x1:1"),
                    HasSubstr("; one GPU per process.\n"), Not(HasSubstr("idle"))));
  wanted.gpus_per_node = 4;
  const JobLayout four = lay_out_job(find_profile("small"), wanted, shape(2, 1));
  EXPECT_EQ(four.processes, 1);
  EXPECT_THAT(four.notes,
              testing::ElementsAre(
                  "a run uses one GPU, and 3 of each node stay idle: give --gpus-per-node 1"));
  wanted.gpus_per_node = 0;
  EXPECT_EQ(lay_out_job(find_profile("small"), wanted, shape(2, 1)).processes, 2);
}

TEST_F(Jobscript, TellsOfGpusThatWholeNodesMakeTheJobPayFor) {
  const JobRequest wanted = request_on_gpus(1);
  const JobLayout plan = lay_out_job(find_profile("alps-clariden"), wanted, shape(1, 1));
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("; it pays for 4 GPUs of each, and uses 1")));
  const JobLayout shared = lay_out_job(find_profile("fir"), wanted, shape(1, 1));
  EXPECT_THAT(shared.notes, Not(testing::Contains(HasSubstr("pays for"))));
}

TEST_F(Jobscript, RefusesSeveralProcessesOnGpusBeforeTheyWaitInAQueue) {
  file("small.yaml", small_profile);
  const auto plan = [&](const JobRequest& wanted) {
    return refusal([&] { lay_out_job(find_profile("small"), wanted, shape(4, 1)); });
  };
  EXPECT_EQ(plan(request_on_gpus(2)),
            "2 processes (2 nodes × 1), but a run on a GPU has one process | "
            "--nodes 1 --tasks-per-node 1, or -r device=cpu");
  JobRequest tasks = request_on_gpus(1);
  tasks.tasks_per_node = 4;
  EXPECT_THAT(plan(tasks),
              HasSubstr("4 processes (1 node × 4), but a run on a GPU has one process"));
  tasks.partition = "cpu";
  EXPECT_EQ(plan(tasks), "no error");
}

TEST_F(Jobscript, RefusesARunThatDemandsAGpuWhereItWouldGetNone) {
  file("small.yaml", small_profile);
  std::string amd = small_profile;
  amd.replace(amd.find("gpu: X1"), 7, "gpu: X1, gpu_cuda: false");
  file("amd.yaml", amd);
  const auto plan = [&](const std::string& cluster, const JobRequest& wanted) {
    return refusal([&] { lay_out_job(find_profile(cluster), wanted, shape(1, 1)); });
  };
  JobRequest wanted = request_on_gpus(1);
  wanted.gpu_demand = {"device is cuda", "-r device=cpu"};
  EXPECT_EQ(plan("small", wanted), "no error");
  EXPECT_EQ(
      script("small", wanted, shape(1, 1)).find("run ./dev build --cuda") == std::string::npos,
      built_with_cuda);
  EXPECT_THAT(plan("amd", wanted), HasSubstr("has no NVIDIA GPUs | -r device=cpu"));
  wanted.gpus_per_node = 0;
  EXPECT_EQ(plan("small", wanted),
            "device is cuda, but the job has no GPUs | --gpus-per-node 1, or -r device=cpu");
}

TEST_F(Jobscript, DescribesAnImageWithCudaForARunOnAGpu) {
  JobRequest wanted = request_on_gpus(1);
  wanted.gpu_demand = {"device is cuda", "-r device=cpu"};
  const auto definition = [&](const char* cluster, const char* engine) {
    wanted.container = engine;
    const JobLayout plan = lay_out_job(find_profile(cluster), wanted, shape(1, 1));
    if (wanted.computes_on_gpus) {
      EXPECT_THAT(job_script(plan, wanted, {"", "o.yaml", {}}), Not(HasSubstr("has no CUDA")));
    }
    return container_files(plan, wanted).at(0).content;
  };
  EXPECT_THAT(
      definition("alps-clariden", "edf"),
      AllOf(HasSubstr("&& ./dev build --cuda -D"), HasSubstr("\nENV NVIDIA_VISIBLE_DEVICES=all ")));
  EXPECT_THAT(definition("fir", "apptainer"), HasSubstr("\n    ./dev build --cuda -D"));
  EXPECT_THAT(definition("puhti", "apptainer"), HasSubstr("\n    ./dev build --cuda=12 -D"));
  wanted.computes_on_gpus = false;
  wanted.gpu_demand = {};
  EXPECT_THAT(definition("alps-clariden", "edf"),
              AllOf(HasSubstr("&& ./dev build -D"), Not(HasSubstr("NVIDIA"))));
}

TEST_F(Jobscript, AsksForAsManyIdleGpusAsThereAreProcesses) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(2, hours(1));
  wanted.partition = "short";
  wanted.tasks_per_node = 1;
  const JobLayout plan = lay_out_job(find_profile("small"), wanted, shape(2, 1));
  EXPECT_EQ(plan.gpus, 1);
  EXPECT_EQ(plan.cores, 16);
}

TEST_F(Jobscript, RefusesSeveralNodesWhereOnlySharedMemoryIsAllowed) {
  JobShape made = shape(4, 1);
  made.transport = "shm";
  check_work(made, 1, 4);
  EXPECT_THAT(refusal([&] { check_work(made, 2, 2); }),
              AllOf(HasSubstr("o.yaml: parallel.transport: shm, but the job has 2 nodes"),
                    HasSubstr("set parallel.transport: auto"), HasSubstr("--nodes 1")));
}

TEST_F(Jobscript, SaysWhichLineGivesAllProcessesWork) {
  JobShape made = shape(2, 2);
  made.data_where = "o.yaml:4:9";
  EXPECT_THAT(refusal([&] { check_work(made, 2, 4); }),
              AllOf(HasSubstr("o.yaml:4:9: parallel.pipeline 2 × parallel.data 2 allows at most 4 "
                              "processes, but the "
                              "job has 8 processes (2 nodes × 4)"),
                    HasSubstr("set parallel.data to 4"), HasSubstr("--tasks-per-node 2")));
  EXPECT_THAT(refusal([&] { check_work(shape(3, 2), 1, 8); }),
              HasSubstr("set parallel.pipeline to 4"));
  made.work.micro_batches = 4;
  EXPECT_THAT(refusal([&] { check_work(made, 3, 4); }),
              AllOf(HasSubstr("set parallel.pipeline to 6"), Not(HasSubstr("parallel.data to 6"))));
  made.work.blocks = 4;
  EXPECT_THAT(refusal([&] { check_work(made, 3, 4); }),
              HasSubstr("set parallel.data to 6 and train.micro_batches to 6"));
  EXPECT_THAT(refusal([&] { check_work(shape(1, 1), 1, 4); }),
              HasSubstr("set parallel.data to 4 in o.yaml"));
  EXPECT_THAT(refusal([&] { check_work(shape(1, 2), 4, 1); }),
              HasSubstr("or --nodes 2 --tasks-per-node 1"));
}

// As train does, which runs with the same bits in any number of processes that it has work for.
TEST_F(Jobscript, TakesAnyNumberOfProcessesThatHaveWork) {
  for (int nodes = 1; nodes <= 4; ++nodes)
    EXPECT_EQ(refusal([&] { check_work(shape(4, 1), nodes, 1); }), "no error") << nodes;
  EXPECT_EQ(refusal([&] { check_work(shape(3, 4), 1, 8); }), "no error");
  file("small.yaml", small_profile);
  JobRequest wanted = request(3, hours(1));
  wanted.partition = "cpu";
  const JobLayout plan = lay_out_job(find_profile("small"), wanted, shape(4, 1));
  EXPECT_EQ(plan.processes, 1);
  EXPECT_THAT(plan.notes, testing::Contains("4 stages over 3 processes: 2 in some, 1 in others"));
  JobShape two_threads = shape(4, 1);
  two_threads.intra_op_threads = 2;
  EXPECT_EQ(lay_out_job(find_profile("small"), wanted, two_threads).cores, 5);  // and the loader's
}

TEST_F(Jobscript, WarnsInTimeForACheckpoint) {
  file("small.yaml", small_profile);
  const auto text = [&](seconds time, std::optional<seconds> before, bool requeue = true) {
    JobRequest wanted = request(1, time);
    wanted.signal_before = before;
    wanted.requeue = requeue;
    return script("small", wanted, shape(1, 1));
  };
  EXPECT_THAT(text(hours(1), {}), AllOf(HasSubstr("--signal=USR1@180"), HasSubstr("--requeue"),
                                        HasSubstr("scontrol requeue")));
  EXPECT_THAT(text(minutes(10), {}), HasSubstr("--signal=USR1@120"));
  EXPECT_THAT(text(minutes(1), {}), Not(HasSubstr("--signal")));
  EXPECT_THAT(text(hours(1), seconds(0)), Not(HasSubstr("--signal")));
  EXPECT_THAT(text(hours(1), {}, false), Not(HasSubstr("scontrol requeue")));
  EXPECT_THAT(refusal([&] { text(hours(1), seconds(20)); }), HasSubstr("60s or more"));
  EXPECT_THAT(refusal([&] { text(hours(1), hours(1)); }), HasSubstr("longer --time"));
}

TEST_F(Jobscript, DefinesTheContainersThatTheSiteRuns) {
  JobRequest wanted = request(2, hours(1));
  wanted.container = "edf";
  const JobLayout plan = lay_out_job(find_profile("alps-clariden"), wanted, shape(2, 4));
  const auto files = container_files(plan, wanted);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "Containerfile");
  EXPECT_EQ(files[1].name, "troupe.toml");
  EXPECT_THAT(files[1].content,
              AllOf(HasSubstr("image = \"${PWD}/troupe.sqsh\"\n"),
                    HasSubstr("com.hooks.aws_ofi_nccl.variant = \"cuda12\""),
                    HasSubstr("NCCL_PROTO = \"^LL128\""), Not(HasSubstr("AWS Libfabric"))));
  const std::string text = job_script(plan, wanted, {"troupe jobscript", "o.yaml", {}});
  EXPECT_THAT(text,
              AllOf(HasSubstr("--environment=\"$PWD/troupe.toml\""), Not(HasSubstr("--uenv"))));
  wanted.container = "apptainer";
  EXPECT_THAT(refusal([&] { container_files(plan, wanted); }), HasSubstr("--container edf"));
}

TEST_F(Jobscript, StartsProcessesInApptainerWithTheSitesFolders) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1), 2);
  wanted.container = "apptainer";
  wanted.image = "my image.sif";
  const JobLayout plan = lay_out_job(find_profile("small"), wanted, shape(2, 1));
  EXPECT_THAT(job_script(plan, wanted, {"", "o.yaml", {}}),
              AllOf(HasSubstr("--nv --bind /data 'my image.sif')"),
                    HasSubstr("\"${container[@]}\" troupe train o.yaml")));
  EXPECT_EQ(container_files(plan, wanted).at(0).name, "troupe.def");
}

TEST_F(Jobscript, ShowsContainersTheFoldersOfTheJobAndItsData) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1), 2);
  wanted.container = "edf";
  wanted.data_folder = "/data of/me";
  const JobLayout alps = lay_out_job(find_profile("alps-clariden"), wanted, shape(2, 1));
  EXPECT_THAT(container_files(alps, wanted).at(1).content,
              HasSubstr("mounts = [\"${PWD}:${PWD}\", \"/capstor:/capstor\", "
                        "\"/iopsstor:/iopsstor\", \"/data of/me:/data of/me\"]\n"));
  EXPECT_THAT(job_script(alps, wanted, {"", "o.yaml", {}}),
              HasSubstr("\nexport TROUPE_DATA='/data of/me' "));
  wanted.container = "apptainer";
  const JobLayout small = lay_out_job(find_profile("small"), wanted, shape(2, 1));
  EXPECT_THAT(job_script(small, wanted, {"", "o.yaml", {}}),
              HasSubstr(" --bind \"$PWD\" --nv --bind /data --bind '/data of/me' "));
}

TEST_F(Jobscript, RunsTheUsersCommandsBeforeTheRun) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1));
  wanted.setup = {"module load troupe/0.1.0", "ulimit -c 0"};
  const std::string text = script("small", wanted, shape(1, 1));
  const auto setup = text.find("\nmodule load troupe/0.1.0\nulimit -c 0\n");
  ASSERT_NE(setup, std::string::npos);
  EXPECT_LT(setup, text.find("command -v troupe"));
}

TEST_F(Jobscript, SaysThatTheNodesHaveAnotherProcessor) {
  JobRequest wanted = request_on_gpus(1);
  wanted.built_for = "x86_64";
  EXPECT_THAT(script("olivia", wanted, shape(1, 1)),
              HasSubstr("this troupe is built for x86_64, but the nodes gh200 are aarch64"));
  EXPECT_THAT(script("fir", wanted, shape(1, 1)), Not(HasSubstr("is built for")));
  wanted.container = "apptainer";
  EXPECT_THAT(script("olivia", wanted, shape(1, 1)), Not(HasSubstr("is built for")));
}

TEST_F(Jobscript, FindsImageAndDefinitionInTheFolderTheyAreWrittenTo) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1), 2);
  wanted.container = "apptainer";
  wanted.folder = "job";
  const JobLayout plan = lay_out_job(find_profile("small"), wanted, shape(2, 1));
  EXPECT_THAT(job_script(plan, wanted, {"", "o.yaml", {}}),
              AllOf(HasSubstr("\nls job/troupe.sif >/dev/null || {\n"),
                    HasSubstr("--bind /data job/troupe.sif)")));
  EXPECT_THAT(container_files(plan, wanted).at(0).content,
              HasSubstr("#   (cd SOURCES && apptainer build \"$OLDPWD/job/troupe.sif\" "
                        "\"$OLDPWD/job/troupe.def\")\n"));
  wanted.folder = "/abs";
  EXPECT_THAT(container_files(plan, wanted).at(0).content,
              HasSubstr("apptainer build \"/abs/troupe.sif\" \"/abs/troupe.def\""));
  wanted.container = "edf";
  wanted.folder = "job";
  const JobLayout alps = lay_out_job(find_profile("alps-clariden"), wanted, shape(2, 4));
  EXPECT_THAT(container_files(alps, wanted).at(1).content,
              HasSubstr("image = \"${PWD}/job/troupe.sqsh\"\n"));
  EXPECT_THAT(job_script(alps, wanted, {"", "o.yaml", {}}),
              HasSubstr("--environment=\"$PWD/job/troupe.toml\""));
}

TEST_F(Jobscript, LooksForTheProgramBeforeTheRun) {
  file("small.yaml", small_profile);
  JobRequest wanted = request(1, hours(1));
  EXPECT_THAT(
      script("small", wanted, shape(2, 1)),
      AllOf(HasSubstr(
                "\ncommand -v troupe >/dev/null || {\n  echo 'there is no troupe on this node: "),
            HasSubstr("--program")));
  wanted.program = "it's/troupe";
  EXPECT_THAT(script("small", wanted, shape(2, 1)), HasSubstr("command -v 'it'\\''s/troupe'"));
}

TEST_F(Jobscript, LoadsApptainerWhereItIsAModule) {
  JobRequest wanted = request(1, hours(1));
  EXPECT_THAT(script("narval", wanted, shape(2, 1)), Not(HasSubstr("module load apptainer")));
  wanted.container = "apptainer";
  for (const char* cluster : {"narval", "fir", "nibi", "rorqual", "trillium"}) {
    if (std::string(cluster) == "trillium") wanted.gpus_per_node = 1;
    EXPECT_THAT(script(cluster, wanted, shape(2, 1)), HasSubstr("\nmodule load apptainer "));
  }
}

TEST_F(Jobscript, SaysWhatAJobPaysForAndDoesNotUse) {
  JobRequest wanted = request(2, hours(1));
  wanted.gpus_per_node = 0;
  wanted.partition = "medium";
  EXPECT_THAT(
      lay_out_job(find_profile("mahti"), wanted, shape(2, 1)).notes,
      testing::Contains(HasSubstr("the job pays for 128 cores of each, and its threads need 2")));
  wanted.partition = "gpumedium";
  wanted.gpus_per_node = 2;
  EXPECT_THAT(
      lay_out_job(find_profile("mahti"), wanted, shape(2, 2)).notes,
      testing::Contains("2 GPUs of each of 2 nodes fit on 1 node, with less traffic between nodes: "
                        "--nodes 1 --gpus-per-node 4"));
  wanted.gpus_per_node = 4;
  EXPECT_THAT(lay_out_job(find_profile("mahti"), wanted, shape(4, 2)).notes,
              Not(testing::Contains(HasSubstr("of each of"))));
}

TEST_F(Jobscript, SaysThatTheDemosDataIsDebians) {
  const std::string demo = TROUPE_SOURCE_DIR "/recipes/demo.yaml";
  const auto with = [&](const char* data) {
    return run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "-r", data, demo}).error;
  };
  EXPECT_THAT(with("data.path="), HasSubstr(", or set data.path"));
  EXPECT_THAT(with("data.name=synthetic"), Not(HasSubstr("data.path")));
}

TEST_F(Jobscript, HasTheFolderOfDataThatWereFetched) {
  const std::string options = file("o.yaml", "model: {name: cifar_cnn}\ndata: {name: cifar10}\n");
  setenv("TROUPE_DATA", "some data", 1);
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"jobscript", "--cluster",          "fir",  "-t", "2h",
                                   "--setup",   "module load troupe", options};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  };
  const std::string folder = (std::filesystem::current_path() / "some data").string();
  const Ran made = with({});
  EXPECT_THAT(made.out, AllOf(HasSubstr("export TROUPE_DATA='" + folder + "' "),
                              HasSubstr("\nmodule load troupe\n")));
  EXPECT_THAT(made.error, HasSubstr("on a login node first (into " + folder + ")"));
  const std::string output = file("job/none", "");
  const std::vector<std::string> container{"--container", "apptainer", "-o",
                                           std::filesystem::path(output).parent_path().string()};
  EXPECT_EQ(with(container).code, exit_done);
  std::vector<std::string> in_image = container;
  in_image.insert(in_image.end(), {"--force", "-r", "data.name=fashion_mnist"});
  setenv("TROUPE_DATA", "/a:b", 1);
  EXPECT_EQ(with(in_image).code, exit_done);
  EXPECT_THAT(with(container).error,
              HasSubstr("TROUPE_DATA is /a:b, which containers cannot mount"));
  unsetenv("TROUPE_DATA");
}

TEST_F(Jobscript, ListsTheOthersWhereAProfileIsBroken) {
  file("broken.yaml", "nodes: 7\n");
  file("small.yaml", small_profile);
  const Ran listed = run_troupe({"jobscript", "--list"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.out, AllOf(HasSubstr("broken         cannot be used: "), HasSubstr("\nsmall"),
                                HasSubstr("\ntrillium")));
}

TEST(ShellWord, ComesBackAsItWas) {
  EXPECT_EQ(shell_word("a/b-c.yaml"), "a/b-c.yaml");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST_F(Jobscript, ListsTheClustersItKnows) {
  const Ran listed = run_troupe({"jobscript", "--list"});
  EXPECT_EQ(listed.code, 0);
  for (const char* name : {"alps-clariden", "alps-daint", "puhti", "mahti", "lumi", "roihu",
                           "olivia", "narval", "fir", "nibi", "rorqual", "trillium"})
    EXPECT_THAT(listed.out, HasSubstr(name));
}

TEST_F(Jobscript, WritesScriptAndDefinitionIntoAFolderOnce) {
  const std::string options =
      file("o.yaml", "model: {name: mlp}\ndata: {name: synthetic}\nparallel: {pipeline: 2}\n");
  const fs::path folder = root_ / "job";
  const std::vector<std::string> words = {
      "jobscript",   "--cluster", "olivia", "--time",        "2h",
      "--container", "apptainer", "-o",     folder.string(), options};
  EXPECT_EQ(run_troupe(words).code, 0);
  EXPECT_TRUE(fs::exists(folder / "o.sh"));
  EXPECT_TRUE(fs::exists(folder / "troupe.def"));
  EXPECT_EQ(run_troupe(words).code, 0);  // the same again changes nothing
  std::ofstream(folder / "o.sh") << "mine";
  const Ran refused = run_troupe(words);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error, HasSubstr("--force"));
}

TEST_F(Jobscript, RequestsAGpuForPrecisionsThatOnlyGpusHave) {
  const std::string options = file("o.yaml", "model: {name: mlp}\ndata: {name: synthetic}\n");
  const auto with = [&](const std::string& setting) {
    return run_troupe({"jobscript", "--cluster", "olivia", "-t", "2h", "-r", setting, options});
  };
  for (const char* setting : {"precision=16-mixed", "device=cuda"}) {
    const Ran made = with(setting);
    EXPECT_EQ(made.code, exit_done) << made.error;
    EXPECT_THAT(made.out, HasSubstr("--gpus-per-node")) << setting;
  }
  EXPECT_THAT(with("device=cpu").out, Not(HasSubstr("--gpus-per-node")));
  const Ran refused = run_troupe(
      {"jobscript", "--cluster", "lumi", "-t", "2h", "-r", "precision=16-mixed", options});
  EXPECT_EQ(refused.code, exit_usage);
  EXPECT_THAT(refused.error,
              AllOf(HasSubstr("precision is 16-mixed, but LUMI (CSC) has no NVIDIA GPUs"),
                    HasSubstr("-r precision=32-true")));
}

TEST_F(Jobscript, SaysWhatBf16NeedsOnCpus) {
  const std::string options = file("o.yaml", "model: {name: mlp}\ndata: {name: synthetic}\n");
  const auto noted = [&](const std::vector<std::string>& settings,
                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"jobscript", "--cluster", "puhti", "-t", "2h"};
    words.insert(words.end(), more.begin(), more.end());
    for (const std::string& setting : settings) words.insert(words.end(), {"-r", setting});
    words.push_back(options);
    const Ran made = run_troupe(words);
    EXPECT_EQ(made.code, exit_done) << made.error;
    return made.out + made.error;
  };
  EXPECT_THAT(noted({"device=cpu", "precision=bf16-mixed"}), HasSubstr("AVX-512 BF16 or AMX"));
  EXPECT_THAT(noted({"device=cpu", "precision=bf16-mixed"}, {"--gpus-per-node", "1"}),
              HasSubstr("AVX-512 BF16 or AMX"));
  EXPECT_THAT(noted({"device=cpu"}), Not(HasSubstr("AVX-512")));
  EXPECT_THAT(noted({"device=cuda", "precision=16-mixed"}), Not(HasSubstr("AVX-512")));
}

TEST_F(Jobscript, RefusesBf16OnV100) {
  const std::string options = file("o.yaml", "model: {name: mlp}\ndata: {name: synthetic}\n");
  const Ran refused = run_troupe({"jobscript", "--cluster", "puhti", "-t", "2h", "-r",
                                  "device=cuda", "-r", "precision=bf16-mixed", options});
  EXPECT_EQ(refused.code, exit_usage);
  EXPECT_THAT(refused.error, HasSubstr("precision is bf16-mixed, but V100 has no arithmetic in "
                                       "bf16\n  try: -r precision=16-mixed"));
}

TEST_F(Jobscript, ReadsMemoryAsSlurmDoes) {
  const std::string options = file("o.yaml", "model: {name: mlp}\ndata: {name: synthetic}\n");
  const auto with = [&](const char* memory) {
    return run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "--mem", memory, options});
  };
  for (const char* memory : {"320", "320G"}) EXPECT_THAT(with(memory).out, HasSubstr("--mem=320G"));
  EXPECT_THAT(with("1536M").out, HasSubstr("--mem=1536M"));
  EXPECT_THAT(with("1T").out, HasSubstr("--mem=1024G"));
  EXPECT_THAT(with("9000G").out, HasSubstr("Note: --mem asks for 9000 GiB, and "));
  for (const char* memory : {"", "G", "-3G", "320GB", "much", "nan", "inf"})
    EXPECT_EQ(with(memory).code, 2) << memory;
}

TEST_F(Jobscript, RefusesWhatWouldBreakOutOfItsLine) {
  const std::string options = file("o.yaml", "model: {name: mlp}\ndata: {name: synthetic}\n");
  for (const char* name : {"a\n#SBATCH --nodes=9", "a b", "$(id)", "a#b"}) {
    const Ran refused =
        run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "--name", name, options});
    EXPECT_EQ(refused.code, 2) << name;
    EXPECT_THAT(refused.error, HasSubstr("is not allowed in an #SBATCH line"));
  }
  for (const char* name : {"a/b", "../a", "/tmp/a"})
    EXPECT_THAT(
        run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "--name", name, options}).error,
        HasSubstr("contains a /, but files of the job have this name"));
  const Ran refused = run_troupe(
      {"jobscript", "--cluster", "lumi", "-t", "2h", "--sbatch", "--comment=x\ntouch F", options});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("--sbatch has a line break"));
  EXPECT_THAT(
      run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "--setup", "a\nb", options}).error,
      HasSubstr("--setup has a line break"));
  EXPECT_THAT(
      run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "--sbatch", "exclusive", options})
          .error,
      HasSubstr("try: --sbatch=--exclusive"));
  const std::string odd =
      file("a\ntouch F\n.yaml", "model: {name: mlp}\ndata: {name: synthetic}\n");
  const Ran made = run_troupe({"jobscript", "--cluster", "lumi", "-t", "2h", "--name", "a", odd});
  EXPECT_EQ(made.code, 0);
  EXPECT_THAT(made.out.substr(0, made.out.find("#SBATCH")), Not(HasSubstr("\ntouch")));
}

}  // namespace
}  // namespace troupe

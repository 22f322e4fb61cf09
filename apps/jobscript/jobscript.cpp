// troupe jobscript: the script that runs an options file on a known cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/fetch/sources.h"
#include "apps/jobscript/container.h"
#include "apps/jobscript/job.h"
#include "apps/jobscript/script.h"
#include "apps/jobscript/slurm_time.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/train/training.h"
#include "apps/verbs.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

struct JobscriptArguments {
  bool list = false;
  std::string cluster, time, signal_before, memory, program;
  JobRequest request;
  bool cpu = false, no_requeue = false;
  fs::path options;
  std::vector<std::string> overrides;
  std::optional<fs::path> output;
  bool force = false;
};

void list_cluster(const ClusterProfile& profile) {
  std::string gpus;
  for (const auto& kind : profile.nodes)
    if (kind.gpus > 0)
      gpus += fmt::format("{}{} × {}, {}", gpus.empty() ? "" : "; ", kind.gpus, kind.gpu,
                          kind.architecture);
  print_out("{:<15}{:<27}{:<11}{}{}\n", profile.name, gpus.empty() ? "none" : gpus,
            fmt::format("{}", fmt::join(profile.container.kinds, ", ")), profile.title,
            profile.closed.empty() ? "" : ", closed");
}

int list_clusters() {
  print_out("{:<15}{:<27}{:<11}{}\n", "cluster", "GPUs of a node", "container", "name");
  for (const fs::path& file : all_profiles()) {
    try {
      list_cluster(read_profile(file));
    } catch (const Error& error) {  // the others are none the worse for it
      print_out("{:<15}cannot be used: {}\n", file.stem().string(), error.message());
    }
  }
  return exit_done;
}

std::chrono::seconds time_of(const char* option, const std::string& text) {
  const auto time = parse_slurm_time(text);
  if (!time)
    throw Error(ErrorCode::usage,
                fmt::format("{} is {}, which is not a time", option, text.substr(0, 40)),
                fmt::format("{} 2:00:00, 2h, 90m or 1-12:00:00", option));
  return *time;
}

/// The fast network of the cluster, where the options leave the choice to Troupe and know the key.
std::vector<std::string> with_interface(std::vector<std::string> overrides, const JobShape& shape,
                                        const JobLayout& layout) {
  const bool open = shape.interface_open && layout.nodes > 1;
  if (open && !layout.profile.interface.empty())
    overrides.push_back("parallel.interface=" + layout.profile.interface);
  return overrides;
}

/// What the options file asks of processes; it is checked as `troupe train` would.
JobShape shape_of(const Options& options, const OptionOrigins& origins,
                  const JobscriptArguments& arguments) {
  JobShape shape;
  shape.interface_open = origins.of("parallel.interface") == "default";
  // `auto` uses the cores that the job has, and asks for none.
  shape.intra_op_threads = std::max(1, options.intra_op_threads);
  shape.workers = options.pipeline.data.workers;
  shape.bf16 = options.pipeline.stream.products == DType::bf16;
  shape.work = work_limits(options);
  shape.transport = options.transport.transport;
  shape.file = arguments.options.string();
  if (find_fetch_source(options.dataset.name) != nullptr &&
      option_text(options, "data.path") == yaml_text(""))
    shape.fetched_data = options.dataset.name;
  shape.pipeline_where = origins.of("parallel.pipeline");
  shape.data_where = origins.of("parallel.data");
  return shape;
}

/// GiB of "320G", "320", "64000M" or "1.5T".
double memory_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit.empty() || unit == "G" ? 1
                       : unit == "M"               ? 1.0 / 1024
                       : unit == "T"               ? 1024
                                                   : 0;
  if (error != std::errc() || !(value * scale > 0 && value * scale < 1e6))
    throw Error(ErrorCode::usage,
                fmt::format("--mem is {}, which is not a size", text.substr(0, 40)),
                "--mem 320G, 64000M or 1T");
  return value * scale;
}

/// `troupe`, which is found by PATH, or another program that is the command, by its path.
std::string program_of(const Invocation& call) {
  const fs::path program = call.program;
  if (program.filename() == "troupe" || !program.has_parent_path()) return program.filename();
  return fs::absolute(program).lexically_normal();
}

JobRequest complete(const JobscriptArguments& arguments, const Invocation& call) {
  JobRequest request = arguments.request;
  request.program = arguments.program.empty() ? program_of(call) : arguments.program;
  if (!arguments.memory.empty()) request.memory = memory_of(arguments.memory);
  if (!arguments.time.empty()) request.time = time_of("--time", arguments.time);
  if (!arguments.signal_before.empty())
    request.signal_before = arguments.signal_before == "0"
                                ? std::chrono::seconds(0)
                                : time_of("--signal-before", arguments.signal_before);
  request.requeue = !arguments.no_requeue;
  utsname system{};
  if (arguments.program.empty() && ::uname(&system) == 0)
    request.built_for = static_cast<const char*>(system.machine);
  if (arguments.cpu) {
    if (request.gpus_per_node && *request.gpus_per_node > 0)
      throw Error(ErrorCode::usage, "--cpu and --gpus-per-node contradict each other",
                  "leave one out");
    request.gpus_per_node = 0;
  }
  request.folder = arguments.output.value_or("").string();
  if (request.name.empty()) request.name = arguments.options.stem().string();
  if (request.name.find('/') != std::string::npos)
    throw Error(ErrorCode::usage,
                fmt::format("--name {} contains a /, but files of the job have this name",
                            printable(request.name, 60)),
                "give a --name of letters, digits, - and _");
  for (const std::string* word : {&request.name, &request.account, &request.partition, &request.qos,
                                  &request.constraint, &request.reservation, &request.mail})
    if (word->find_first_of(" \t\r\n#\"'\\`$") != std::string::npos)
      throw Error(ErrorCode::usage,
                  fmt::format("\"{}\" is not allowed in an #SBATCH line", word->substr(0, 60)),
                  request.name == *word ? "give a --name of letters, digits, - and _"
                                        : "leave out blanks, quotes, # and $");
  for (const auto& [option, lines] :
       {std::pair{"--sbatch", &request.sbatch}, std::pair{"--setup", &request.setup}})
    for (const std::string& line : *lines)
      if (std::ranges::any_of(line, is_control))
        throw Error(ErrorCode::usage,
                    fmt::format("{} has a line break or another control character", option),
                    fmt::format("give each line with its own {}", option));
  for (const std::string& option : request.sbatch)
    if (!option.starts_with('-'))
      throw Error(
          ErrorCode::usage, fmt::format("--sbatch is {}", printable(option, 60)),
          fmt::format("--sbatch={}{}", option.size() == 1 ? "-" : "--", printable(option, 60)));
  return request;
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

/// Writes a file of the job; one that holds something else is kept unless `force`.
void write(const fs::path& file, const std::string& content, bool force) {
  std::error_code error;
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path(), error);
  if (!force && fs::exists(file) && content_of(file) != content)
    throw Error(ErrorCode::io, fmt::format("{} exists with other content", file.string()),
                "replace it with --force, or choose another folder with --output");
  std::ofstream stream(file, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream)
    throw Error(ErrorCode::io, fmt::format("{} could not be written", file.string()),
                "check the permissions of the folder");
}

/// Why the run would fail on a node without a GPU; nothing if it would not.
std::optional<GpuDemand> gpu_demand_of(const Options& options) {
  const Stream& stream = options.pipeline.stream;
  if (options.device == DeviceChoice::cpu) return std::nullopt;
  if (options.device == DeviceChoice::cuda) return GpuDemand{"device is cuda", "-r device=cpu"};
  if (stream.products == DType::f16)
    return GpuDemand{"precision is 16-mixed", "-r precision=32-true"};
  return std::nullopt;
}

/// TROUPE_DATA, if the run reads there.
std::string data_folder(const JobShape& shape, const JobRequest& request) {
  const char* data = std::getenv("TROUPE_DATA");
  if (!data || *data == '\0' || shape.fetched_data.empty() || has_data_in_image(shape, request))
    return {};
  std::string folder = fs::absolute(data).lexically_normal().string();
  if (!request.container.empty() && folder.find_first_of(":,$") != std::string::npos)
    throw Error(
        ErrorCode::usage,
        fmt::format("TROUPE_DATA is {}, which containers cannot mount", printable(folder, 200)),
        "give it a path without : , and $");
  return folder;
}

int jobscript(const JobscriptArguments& arguments, const Invocation& call) {
  if (arguments.list) return list_clusters();
  if (arguments.cluster.empty())
    throw Error(ErrorCode::usage, "no --cluster is given",
                fmt::format("`{} jobscript --list` shows all", program_name()));
  if (arguments.options.empty())
    throw Error(ErrorCode::usage, "no options file is given",
                fmt::format("{} jobscript --cluster {} --time 2:00:00 options.yaml", program_name(),
                            arguments.cluster));
  const ClusterProfile profile = find_profile(arguments.cluster);
  JobRequest request = complete(arguments, call);
  OptionOrigins origins;
  const Options options = load_options(arguments.options, arguments.overrides, call.own, &origins);
  request.gpu_demand = gpu_demand_of(options);
  request.computes_on_gpus =
      options.device != DeviceChoice::cpu && (built_with_cuda || request.gpu_demand);
  const JobShape shape = shape_of(options, origins, arguments);
  request.data_folder = data_folder(shape, request);
  const JobLayout layout = lay_out_job(profile, request, shape);
  const auto definitions = container_files(layout, request);
  const std::string script = job_script(layout, request,
                                        {call.command_line, arguments.options.string(),
                                         with_interface(arguments.overrides, shape, layout),
                                         request.container.empty() ? arguments.cluster : ""});
  const fs::path folder = arguments.output.value_or(".");
  for (const DefinitionFile& file : definitions) {
    write(folder / file.name, file.content, arguments.force);
    print_error("wrote {}\n", (folder / file.name).string());
  }
  for (const std::string& warning : options.warnings) print_warning("{}", warning);
  for (const std::string& note : layout.notes) print_error("note: {}\n", note);
  if (!arguments.output) {
    print_out("{}", script);
    return exit_done;
  }
  const fs::path file = folder / (request.name + ".sh");
  write(file, script, arguments.force);
  print_error("wrote {0}; submit it with: sbatch {0}\n", file.string());
  return exit_done;
}

void add_resources(CLI::App& verb, JobscriptArguments& arguments) {
  JobRequest& request = arguments.request;
  constexpr std::int64_t most = 100'000;
  verb.add_option("-N,--nodes", request.nodes, "nodes of the job (1)")
      ->check(CLI::Range(1L, most))
      ->option_text("NUMBER");
  verb.add_option("-t,--time", arguments.time, "time limit, 2:00:00, 2h or 1-12:00:00")
      ->type_name("TIME");
  verb.add_option(
          "--gpus-per-node", request.gpus_per_node,
          "GPUs per node; 0: CPU nodes. Default: 1 for a run on a GPU;\n"
          "for a run on CPUs 0, or on a cluster without CPU nodes\nas many as the stages need")
      ->check(CLI::Range(0L, 64L))
      ->option_text("NUMBER");
  verb.add_flag("--cpu", arguments.cpu, "CPU nodes, same as --gpus-per-node 0");
  verb.add_option("--tasks-per-node,--ntasks-per-node", request.tasks_per_node,
                  "processes per node. Default: 1 for a run on a GPU; for a\n"
                  "run on CPUs one for each GPU, or stage and replica")
      ->check(CLI::Range(1L, 4096L))
      ->option_text("NUMBER");
  verb.add_option("-c,--cpus-per-task", request.cpus_per_task, "cores of a process")
      ->check(CLI::Range(1L, 4096L))
      ->option_text("NUMBER");
  verb.add_option("--mem", arguments.memory, "memory of a node: 320G (or 320), 64000M, 1T")
      ->type_name("SIZE");
  verb.add_option("-p,--partition", request.partition, "partition (the first that accepts the job)")
      ->type_name("NAME");
  verb.add_option("-q,--qos", request.qos, "quality of service")->type_name("NAME");
  verb.add_option("-C,--constraint", request.constraint, "features that nodes must have")
      ->type_name("FEATURES");
  verb.add_option("--reservation", request.reservation, "reservation")->type_name("NAME");
}

}  // namespace

void add_jobscript_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<JobscriptArguments>();
  JobRequest& request = arguments->request;
  CLI::App* verb = app.add_subcommand("jobscript", "Write the job script for a known cluster");
  verb->add_option("FILE", arguments->options, "options file of the run");
  verb->add_flag("--list", arguments->list, "list the known clusters");
  verb->add_option("--cluster", arguments->cluster, "name of a cluster, or path of a profile")
      ->type_name("NAME");
  add_resources(*verb, *arguments);
  verb->add_option("-A,--account", request.account, "project to charge")->type_name("PROJECT");
  verb->add_option("-J,--name,--job-name", request.name,
                   "name of the job (name of the options file)")
      ->type_name("NAME");
  verb->add_option("--signal-before", arguments->signal_before,
                   "time before the limit to save and stop (3m); 0: never")
      ->type_name("TIME");
  verb->add_flag("--no-requeue", arguments->no_requeue, "do not requeue the job to resume");
  verb->add_option("--mail,--mail-user", request.mail,
                   "e-mail address for end, failure and requeue of the job")
      ->type_name("ADDRESS");
  verb->add_option("--launcher", request.launcher, "program that starts the processes")
      ->check(CLI::IsMember({"srun", "launch"}))
      ->option_text("srun|launch");
  verb->add_option("--container", request.container, "container engine")
      ->check(CLI::IsMember({"edf", "apptainer", "podman"}))
      ->option_text("edf|apptainer|podman");
  verb->add_option("--image", request.image, "existing image of the container")->type_name("IMAGE");
  verb->add_option("--program", arguments->program, "path of this program on the cluster")
      ->type_name("PATH");
  verb->add_option("--sbatch", request.sbatch,
                   "option to pass to sbatch unchanged; may be repeated")
      ->type_name("OPTION")
      ->allow_extra_args(false);
  verb->add_option("--setup", request.setup,
                   "command before the run, such as 'module load troupe'; may be\nrepeated")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  verb->add_option("-r,--override", arguments->overrides, "overrides the file (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("-o,--output", arguments->output,
                   "folder for the script and its files (standard output)")
      ->type_name("FOLDER");
  verb->add_flag("--force", arguments->force, "replace existing files");
  verb->footer(
      fmt::format("Example: {} jobscript --cluster lumi --nodes 2 --tasks-per-node 4 --time 2h \\\n"
                  "           -r parallel.data=8 -r train.micro_batches=8 FILE > job.sh",
                  program_name()));
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) { return jobscript(*arguments, call); };
  });
}

}  // namespace troupe

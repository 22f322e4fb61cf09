#include "apps/jobscript/script.h"

#include <fmt/format.h>

#include "apps/jobscript/container.h"
#include "apps/jobscript/directives.h"
#include "runtime/shell_text.h"
#include "runtime/text.h"

namespace troupe {
namespace {

std::string heading(const JobLayout& layout, const ScriptText& text) {
  std::string gpus;
  if (layout.gpus > 0 && layout.gpus == layout.processes)
    gpus = "; one GPU per process";
  else if (layout.gpus > 0)
    gpus = fmt::format("; {} per node", counted(layout.gpus, "GPU"));
  if (layout.gpus_stay_idle) gpus += ", unused";
  return fmt::format(
      "#!/bin/bash\n"
      "# {} on {}: {}, {} per node{}.\n"
      "# Made by: {}\n"
      "# Site facts of {}: {}\n",
      in_one_line(text.options), layout.profile.title, counted(layout.nodes, "node"),
      counted(layout.processes, "process"), gpus, in_one_line(text.command_line),
      layout.profile.checked.empty() ? "unknown date" : layout.profile.checked,
      layout.profile.site);
}

std::string environment(const JobLayout& layout, const JobRequest& request) {
  std::string text =
      "\n# The log begins with this script and its environment.\n"
      "cat \"$0\"\n"
      "env | grep -E '^(SLURM|CUDA|NCCL|FI|OMP|TROUPE)_' | grep -v '^TROUPE_JOB_KEY=' | sort\n\n";
  for (const auto& line : layout.profile.setup)
    if (layout.holds(line)) text += with_reason(line.text, line.why);
  if (!request.data_folder.empty())
    text += with_reason("export TROUPE_DATA=" + shell_word(request.data_folder),
                        "where `troupe fetch` has downloaded to");
  for (const std::string& line : request.setup) text += line + '\n';
  // Oversubscribed cores are slower than too few threads.
  text +=
      with_reason("export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", "threads of a process: its cores");
  text += with_reason("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK",
                      "since Slurm 22.05 srun does not take it from sbatch");
  for (const auto& line : layout.profile.environment)
    if (layout.holds(line))
      text += with_reason(fmt::format("export {}={}", line.name, shell_value(line.text)), line.why);
  return text;
}

/// The key and the file by which the job's processes find and authenticate each other. The script
/// holds no secret: the key is made when it runs, after the environment has been logged.
std::string rendezvous() {
  return "\n# The job's key, made anew at each start and passed in the environment only, and the "
         "file\n"
         "# where rank 0 writes its address: in this folder, as homes may be read-only on nodes.\n"
         "TROUPE_JOB_KEY=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\n"
         "export TROUPE_JOB_KEY\n"
         "export TROUPE_JOB_FILE=$PWD/.troupe-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}\n";
}

std::string options_words(const ScriptText& text) {
  std::string words = fmt::format(" {}", shell_word(text.options));
  for (const std::string& assignment : text.overrides) words += " -r " + shell_word(assignment);
  return words;
}

std::string train_words(const ScriptText& text) {
  return "train" + options_words(text) + " -o \"$output\" --restart auto";
}

/// The array of words that every srun begins with.
std::string srun_array(const JobLayout& layout, const JobRequest& request) {
  std::string text =
      "\n# srun must not end the other processes when one ends after its checkpoint. When a "
      "process is\n"
      "# lost, the others have two minutes to end by themselves.\n"
      "srun=(srun --kill-on-bad-exit=0 --wait=120";
  for (const auto& line : layout.profile.srun)
    if (layout.holds(line)) text += " " + line.text;
  text += ")\n";
  for (const auto& line : layout.profile.srun)
    if (layout.holds(line) && !line.why.empty())
      text +=
          fmt::format("# {}: {}\n", line.text.substr(0, line.text.find_first_of("=: ")), line.why);
  text += container_setup(layout, request);
  return text;
}

/// Checks that the program or its image exists.
std::string presence_test(const JobRequest& request) {
  const std::string container = container_test(request);
  const std::string test = !container.empty()          ? container
                           : request.container.empty() ? "command -v " + shell_word(request.program)
                                                       : "";
  if (test.empty()) return {};
  const std::string said =
      container.empty()
          ? fmt::format(
                "there is no {} on this node: build it on this cluster and name it with --program, "
                "or use "
                "--container; see docs/clusters.md",
                request.program)
          : fmt::format("no image {} here: the first lines of its definition show how to build it",
                        image_of(request));
  return fmt::format(
      "\n{} >/dev/null || {{\n"
      "  echo {} >&2\n"
      "  exit 1\n"
      "}}\n",
      test, shell_word(said));
}

std::string run_lines(const JobLayout& layout, const JobRequest& request, const ScriptText& text) {
  const std::string program = container_prefix(request) + shell_word(request.program);
  std::string lines =
      "\n# A requeued job has the same number and resumes in the same folder.\n"
      "output=outputs/$SLURM_JOB_NAME-$SLURM_JOB_ID\n";
  lines += srun_array(layout, request);
  lines += fmt::format(
      "\n# Check the nodes first.\n"
      "\"${{srun[@]}}\" {} doctor{}{}\n",
      program, text.cluster.empty() ? "" : " --cluster " + shell_word(text.cluster),
      options_words(text));
  if (request.launcher == "launch") {
    lines +=
        "\n# The launchers of all nodes connect to the first node.\n"
        "endpoint=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1):29400\n\n"
        "code=0\n";
    lines += fmt::format(
        "\"${{srun[@]}}\" {} launch --nnodes \"$SLURM_JOB_NUM_NODES\" --nproc-per-node {} \\\n"
        "  --rdzv-endpoint \"$endpoint\" --rdzv-id \"$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}\" "
        "\\\n"
        "  -- {} || code=$?\n",
        program, layout.processes, train_words(text));
  } else {
    lines +=
        fmt::format("\ncode=0\n\"${{srun[@]}}\" {} {} || code=$?\n", program, train_words(text));
  }
  return lines;
}

std::string ending(const JobLayout& layout, const JobRequest& request) {
  if (!request.requeue || layout.signal_before.count() == 0) return "exit \"$code\"\n";
  return "\n# 75: stopped on request, with a checkpoint. After the signal before the time limit "
         "the job is\n"
         "# requeued and resumes; a cancelled job is no longer RUNNING and is not requeued. The "
         "last task of\n"
         "# an array has the number of the whole array.\n"
         "job=$SLURM_JOB_ID\n"
         "[ -z \"${SLURM_ARRAY_TASK_ID:-}\" ] || "
         "job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n"
         "if [ \"$code\" -eq 75 ] && [ \"$(squeue -h -j \"$job\" -o %T)\" = RUNNING ]; then\n"
         "  scontrol requeue \"$job\"\n"
         "fi\n"
         "exit \"$code\"\n";
}

}  // namespace

std::string job_script(const JobLayout& layout, const JobRequest& request, const ScriptText& text) {
  std::string script = heading(layout, text);
  for (const std::string& note : layout.notes) script += comment("Note: " + note + ".");
  script += "#\n" + directives(layout, request);
  script += "\nset -euo pipefail\n";
  script += environment(layout, request);
  script += rendezvous();
  script += presence_test(request);
  script += run_lines(layout, request, text);
  script += ending(layout, request);
  return script;
}

}  // namespace troupe

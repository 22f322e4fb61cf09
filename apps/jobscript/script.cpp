#include "apps/jobscript/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>
#include <utility>

#include "apps/jobscript/container.h"
#include "apps/jobscript/slurm_time.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// A line with its reason as a comment, which begins in the same column of every line.
std::string with_reason(const std::string& text, const std::string& why) {
  constexpr std::size_t column = 46;
  if (why.empty()) return text + "\n";
  const std::size_t gap = text.size() + 2 < column ? column - text.size() : 2;
  return fmt::format("{}{}# {}\n", text, std::string(gap, ' '), why);
}

/// A value, in double quotes if the shell would split it; variables are still expanded.
std::string shell_value(const std::string& value) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           (c < 0x80 &&
            std::string_view("_./:,+=%@-^").find(static_cast<char>(c)) != std::string_view::npos);
  };
  if (!value.empty() && std::all_of(value.begin(), value.end(), plain)) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '`') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// Without line breaks, for a comment.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(text, is_control, ' ');
  return text;
}

/// A comment, wrapped between words.
std::string comment(const std::string& sentence) {
  constexpr std::size_t longest = 100;
  std::string lines, line = "#";
  std::istringstream words(sentence);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > longest) lines += std::exchange(line, "#  ") + "\n";
    line += " " + word;
  }
  return lines + line + "\n";
}

std::string heading(const JobLayout& layout, const ScriptText& text) {
  std::string gpus;
  if (layout.gpus > 0 && layout.gpus == layout.processes)
    gpus = ", a GPU for each";
  else if (layout.gpus > 0)
    gpus = fmt::format(", {} a node", counted(layout.gpus, "GPU"));
  if (layout.gpus_stay_idle) gpus += layout.gpus == 1 ? ", which stays idle" : ", which stay idle";
  return fmt::format(
      "#!/bin/bash\n"
      "# {} on {}: {}, {} a node{}.\n"
      "# Made by: {}\n"
      "# Site facts of {}: {}\n",
      in_one_line(text.options), layout.profile.title, counted(layout.nodes, "node"),
      counted(layout.processes, "process"), gpus, in_one_line(text.command_line),
      layout.profile.checked.empty() ? "unknown date" : layout.profile.checked,
      layout.profile.site);
}

std::string memory_text(double gibibytes) {
  const bool whole = gibibytes == std::floor(gibibytes);
  return whole ? fmt::format("{:.0f}G", gibibytes)
               : fmt::format("{:.0f}M", std::floor(gibibytes * 1024));
}

std::string gpu_request(const JobLayout& layout) {
  std::string text = layout.kind.gpu_request;
  // A share of a GPU, or an uneven one, cannot be requested for each task.
  const bool even = layout.gpus % layout.tasks == 0;
  if (!even && text.find("{gpus_per_task}") != std::string::npos) text = "--gpus-per-node={gpus}";
  const auto put = [&](std::string_view place, std::int64_t count) {
    if (const std::size_t at = text.find(place); at != std::string::npos)
      text.replace(at, place.size(), std::to_string(count));
  };
  put("{gpus}", layout.gpus);
  put("{gpus_per_task}", layout.gpus / layout.tasks);
  return text;
}

class Directives {
 public:
  void add(const std::string& option, const std::string& why = {}) {
    text_ += with_reason("#SBATCH " + option, why);
  }
  void add_if(const std::string& value, const char* option, const std::string& why = {}) {
    if (!value.empty()) add(fmt::format("--{}={}", option, value), why);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string directives(const JobLayout& layout, const JobRequest& request) {
  Directives out;
  out.add("--job-name=" + request.name);
  if (!request.account.empty())
    out.add("--account=" + request.account);
  else if (layout.profile.needs_account)
    out.add("--account=PROJECT", "replace by your project");
  out.add_if(layout.partition.name, "partition");
  out.add_if(layout.partition.qos, "qos");
  out.add_if(request.reservation, "reservation");
  out.add_if(request.constraint, "constraint");
  out.add(fmt::format("--nodes={}", layout.nodes));
  out.add(fmt::format("--ntasks-per-node={}", layout.tasks),
          layout.tasks < layout.processes   ? "troupe launch starts the other processes"
          : layout.gpus == layout.processes ? "one process for each GPU"
                                            : "processes on a node");
  out.add(fmt::format("--cpus-per-task={}", layout.cores),
          layout.gpus > 0                ? "the cores of its share of the GPUs"
          : layout.partition.whole_nodes ? "all cores of the node, which the job pays for"
                                         : "threads of its stages and of its loader");
  if (layout.gpus > 0) {
    const std::string gpus = gpu_request(layout);
    const bool of_task = gpus.find("per-task") != std::string::npos;
    out.add(gpus, fmt::format("{} of a {}", layout.kind.gpu, of_task ? "process" : "node"));
  }
  if (layout.memory > 0)
    out.add("--mem=" + memory_text(layout.memory), layout.gpus > 0
                                                       ? "of a node, in proportion to the GPUs"
                                                       : "of a node, in proportion to the cores");
  out.add("--time=" + slurm_time(layout.time));
  out.add("--output=%x-%j.out");
  out.add("--error=%x-%j.err");
  if (layout.signal_before.count() > 0)
    out.add(fmt::format("--signal=USR1@{}", layout.signal_before.count()),
            "seconds before the limit: save and stop");
  if (request.requeue) {
    out.add("--requeue", "may be requeued with the same job number");
    out.add("--open-mode=append", "then it appends to the same log");
  } else {
    out.add("--no-requeue");
  }
  if (!request.mail.empty()) {
    out.add("--mail-user=" + request.mail);
    out.add("--mail-type=END,FAIL,REQUEUE");
  }
  for (const auto& line : layout.profile.directives)
    if (layout.holds(line)) out.add(line.text, line.why);
  for (const std::string& option : request.sbatch) out.add(option);
  return out.take();
}

std::string environment(const JobLayout& layout) {
  std::string text =
      "\n# The log begins with this script and its environment.\n"
      "cat \"$0\"\n"
      "env | grep -E '^(SLURM|CUDA|NCCL|FI|OMP|TROUPE)_' | grep -v '^TROUPE_JOB_KEY=' | sort\n\n";
  for (const auto& line : layout.profile.setup)
    if (layout.holds(line)) text += with_reason(line.text, line.why);
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
      "\n# A process that ends after its checkpoint must not end the others before theirs; when "
      "one is\n"
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
                "no {} here: build it on this cluster and give it with --program, or use "
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
         "# requeued and resumes; a cancelled job is no longer RUNNING and is not requeued.\n"
         "if [ \"$code\" -eq 75 ] && [ \"$(squeue -h -j \"$SLURM_JOB_ID\" -o %T)\" = RUNNING ]; "
         "then\n"
         "  scontrol requeue \"$SLURM_JOB_ID\"\n"
         "fi\n"
         "exit \"$code\"\n";
}

}  // namespace

std::string shell_word(std::string_view word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           (c < 0x80 &&
            std::string_view("_./:,+=%@-").find(static_cast<char>(c)) != std::string_view::npos);
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string job_script(const JobLayout& layout, const JobRequest& request, const ScriptText& text) {
  std::string script = heading(layout, text);
  for (const std::string& note : layout.notes) script += comment("Note: " + note + ".");
  script += "#\n" + directives(layout, request);
  script += "\nset -euo pipefail\n";
  script += environment(layout);
  script += rendezvous();
  script += presence_test(request);
  script += run_lines(layout, request, text);
  script += ending(layout, request);
  return script;
}

}  // namespace troupe

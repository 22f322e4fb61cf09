#include "apps/jobscript/directives.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "apps/jobscript/slurm_time.h"
#include "runtime/shell_text.h"

namespace troupe {
namespace {

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

}  // namespace

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
    out.add("--mem=" + memory_text(layout.memory), request.memory ? "of a node"
                                                   : layout.gpus > 0
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

}  // namespace troupe

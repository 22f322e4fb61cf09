#include "apps/allocated_gpus.h"

#include <charconv>
#include <sstream>
#include <string>

namespace troupe {
namespace {

/// How many a list such as "0,1,3-5" names.
int count_of_list(const std::string& list) {
  int count = 0;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t dash = item.find('-');
    int first = 0, last = 0;
    const char* end = item.data() + item.size();
    const char* middle = dash == std::string::npos ? end : item.data() + dash;
    const bool range = dash != std::string::npos &&
                       std::from_chars(item.data(), middle, first).ptr == middle &&
                       std::from_chars(middle + 1, end, last).ptr == end && last >= first;
    count += range ? last - first + 1 : 1;
  }
  return count;
}

}  // namespace

int allocated_gpus(const Environment::Variables& environment) {
  const auto has = [&](const char* name) { return environment.contains(name); };
  const auto variable = [&](const char* name) { return has(name) ? environment.at(name) : ""; };
  const std::string on_node = variable("SLURM_GPUS_ON_NODE");
  int count = 0;
  const auto [end, error] = std::from_chars(on_node.data(), on_node.data() + on_node.size(), count);
  if (!on_node.empty() && error == std::errc() && end == on_node.data() + on_node.size())
    return count;
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (has(name)) return count_of_list(variable(name));
  const bool in_job = has("SLURM_JOB_ID") || has("PBS_JOBID") || has("LSB_JOBID");
  const std::string visible = variable("CUDA_VISIBLE_DEVICES");
  return in_job && !visible.empty() && visible != "-1" && visible != "NoDevFiles"
             ? count_of_list(visible)
             : 0;
}

}  // namespace troupe

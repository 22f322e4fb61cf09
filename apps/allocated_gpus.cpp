#include "apps/allocated_gpus.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace troupe {
namespace {

/// Of one node: a larger number is none.
constexpr int most = 1024;

/// The whole text as a number of GPUs; nothing if it is none.
std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0 || number > most) return std::nullopt;
  return number;
}

/// How many a list such as "0,1,3-5" names.
int count_of_list(const std::string& list) {
  int count = 0;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    if (item.empty()) continue;
    const std::size_t dash = std::min(item.find('-'), item.size());
    const auto first = number_of(item.substr(0, dash));
    const auto last = dash < item.size() ? number_of(item.substr(dash + 1)) : std::nullopt;
    count += first && last && *last >= *first ? *last - *first + 1 : 1;
  }
  return count;
}

}  // namespace

int allocated_gpus(const Environment::Variables& environment) {
  const auto has = [&](const char* name) { return environment.contains(name); };
  const auto variable = [&](const char* name) { return has(name) ? environment.at(name) : ""; };
  if (const auto count = number_of(variable("SLURM_GPUS_ON_NODE"))) return *count;
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (has(name)) return count_of_list(variable(name));
  const bool in_job = has("SLURM_JOB_ID") || has("PBS_JOBID") || has("LSB_JOBID");
  const std::string visible = variable("CUDA_VISIBLE_DEVICES");
  return in_job && !visible.empty() && visible != "-1" && visible != "NoDevFiles"
             ? count_of_list(visible)
             : 0;
}

}  // namespace troupe

#include "apps/train/work_distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/text.h"

namespace troupe {
namespace {

std::string shared_unevenly(std::int64_t things, std::string_view what, std::int64_t sharers,
                            std::string_view whom) {
  if (sharers < 1 || things < sharers || things % sharers == 0) return {};
  const std::int64_t fewest = things / sharers;
  return fmt::format("{} {} over {} {}: {} in some, {} in others", things, what, sharers, whom,
                     fewest + 1, fewest);
}

}  // namespace

std::string work_words(const WorkLimits& limits) {
  return fmt::format("parallel.pipeline {} × parallel.data {} allows at most {}", limits.pipeline,
                     limits.data, counted(limits.total_stages(), "process"));
}

std::string uneven_words(std::int64_t processes, const WorkLimits& limits) {
  return shared_unevenly(limits.total_stages(), "stages", processes, "processes");
}

std::string uneven_micro_batches(const WorkLimits& limits) {
  return shared_unevenly(limits.micro_batches, "micro-batches", limits.data, "replicas");
}

std::int64_t even_processes(std::int64_t processes, const WorkLimits& limits) {
  while (processes < limits.total_stages() && limits.total_stages() % processes != 0) ++processes;
  return std::min(processes, limits.total_stages());
}

std::vector<std::string> distributions_over(std::int64_t processes, const WorkLimits& limits) {
  std::vector<std::string> ways;
  const std::int64_t data = processes / limits.pipeline, pipeline = processes / limits.data;
  const bool by_data = processes % limits.pipeline == 0, by_pipeline = processes % limits.data == 0;
  if (by_data && data <= limits.micro_batches)
    ways.push_back(fmt::format("parallel.data={}", data));
  if (by_pipeline && pipeline <= limits.blocks)
    ways.push_back(fmt::format("parallel.pipeline={}", pipeline));
  if (by_data && data > limits.micro_batches && data <= limits.batch_size)
    ways.push_back(fmt::format("parallel.data={0} train.micro_batches={0}", data));
  if (ways.empty() && processes <= limits.batch_size)
    ways.push_back(fmt::format("parallel.pipeline=1 parallel.data={0}{1}", processes,
                               processes <= limits.micro_batches
                                   ? ""
                                   : fmt::format(" train.micro_batches={}", processes)));
  return ways;
}

std::string distribution_words(std::int64_t processes, const WorkLimits& limits) {
  std::string text;
  for (std::string way : distributions_over(processes, limits)) {
    for (std::size_t at = 0; (at = way.find(' ', at)) != std::string::npos; at += 4)
      way.replace(at, 1, " -r ");
    text += fmt::format("{}-r {}", text.empty() ? "" : ", or ", way);
  }
  return text;
}

std::string or_give(std::int64_t processes, const WorkLimits& limits) {
  const std::string words = distribution_words(processes, limits);
  return words.empty() ? words : ", or give " + words;
}

}  // namespace troupe

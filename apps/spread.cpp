#include "apps/spread.h"

#include <fmt/format.h>

namespace troupe {

std::vector<std::string> spreads_over(std::int64_t processes, const SpreadLimits& limits) {
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

std::string spread_words(std::int64_t processes, const SpreadLimits& limits) {
  std::string text;
  for (std::string way : spreads_over(processes, limits)) {
    for (std::size_t at = 0; (at = way.find(' ', at)) != std::string::npos; at += 4)
      way.replace(at, 1, " -r ");
    text += fmt::format("{}-r {}", text.empty() ? "" : ", or ", way);
  }
  return text;
}

}  // namespace troupe

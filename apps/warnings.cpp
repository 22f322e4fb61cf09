#include "apps/warnings.h"

#include <fmt/format.h>

#include "ops/cpu/processor.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

/// Some wait in each step for those that have more to do.
std::vector<std::string> uneven_shares(const Options& options, std::uint32_t processes) {
  const SpreadLimits shares{.pipeline = options.parallel.pipeline,
                            .data = options.parallel.data,
                            .micro_batches = options.train.micro_batches};
  std::vector<std::string> sentences;
  if (const std::string uneven = uneven_words(processes, shares); !uneven.empty())
    sentences.push_back(fmt::format("{}; {} processes would have as many each", uneven,
                                    even_processes(processes, shares)));
  if (const std::string uneven = uneven_micro_batches(shares); !uneven.empty())
    sentences.push_back(
        fmt::format("{}; a multiple of {} as train.micro_batches is even", uneven, shares.data));
  return sentences;
}

}  // namespace

std::vector<std::string> warnings(const Options& options, const StartingPoint& start,
                                  const LearningRateOptions& rate, std::uint32_t processes) {
  std::vector<std::string> sentences = uneven_shares(options, processes);
  if (lacks_its_rise(rate))
    sentences.push_back(fmt::format(
        "one_cycle has no rise in so few steps ({}): it begins at the largest rate, {}; "
        "train longer, or take another train.schedule",
        rate.total_steps, rate.lr));
  const int threads = actor_threads(options, processes) * options.parallel.intra_op_threads;
  if (threads > available_cores())
    sentences.push_back(fmt::format(
        "{} actor threads × {} intra-op threads share {}; lower parallel.actor_threads or "
        "parallel.intra_op_threads",
        actor_threads(options, processes), options.parallel.intra_op_threads,
        counted(available_cores(), "core")));
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  const int neighbours = world ? world->local_size : 1;
  const int cores = world ? node_cores(*world, environment) : available_cores();
  if (processes > 1 && neighbours > 1 && neighbours * threads > cores)
    sentences.push_back(fmt::format("{} processes of {} share {}: fewer may be as fast", neighbours,
                                    counted(threads, "thread"), counted(cores, "core")));
  if (start.intra_op_threads != 0 && start.intra_op_threads != options.parallel.intra_op_threads)
    sentences.push_back(
        fmt::format("the checkpoint was made with parallel.intra_op_threads {}, this run has {}: "
                    "kernels may sum "
                    "in another order, so the weights may differ in their last bits",
                    start.intra_op_threads, options.parallel.intra_op_threads));
  const std::string processor = cpu::arithmetic_of_this_processor();
  if (!start.processor.empty() && start.processor != processor)
    sentences.push_back(
        fmt::format("the checkpoint was made on a processor of {}, this one is of {}: kernels may "
                    "take other algorithms, so the weights may differ in their last bits",
                    start.processor, processor));
  return sentences;
}

}  // namespace troupe

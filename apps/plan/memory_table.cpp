// The bound of the memory that `troupe plan` prints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "actors/pipeline_bytes.h"
#include "apps/options/options_table.h"
#include "apps/plan/planned_run.h"
#include "ops/gpu_sizes.h"
#include "runtime/bytes_text.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Place = MemoryBound::Place;

// Of the driver and of CUDA's libraries, in the memory of the GPU.
constexpr std::size_t assumed_context_bytes = std::size_t{3} << 29;

/// The parts of the process that needs the most there. Returns their sum.
std::size_t print_parts(const PlannedRun& run, Place place, std::string_view of) {
  const auto total = [&](const MemoryBound& bound) { return bound.total(place); };
  const auto largest = std::ranges::max_element(run.bounds, {}, total);
  print_out("\nmemory bound{}{}\n", of,
            run.processes() == 1
                ? ""
                : fmt::format(" of process {}, the largest", largest - run.bounds.begin()));
  for (const auto& part : largest->parts)
    if (part.place == place) print_out("  {:<30}{:>12}\n", part.what, bytes_text(part.bytes));
  print_out("  {:<30}{:>12}\n", "total", bytes_text(total(*largest)));
  return total(*largest);
}

/// The bytes of the parts on the device whose names `is_wanted`.
std::size_t bytes_of(const PlannedRun& run, bool (*is_wanted)(std::string_view what)) {
  std::size_t bytes = 0;
  for (const auto& part : run.bounds.front().parts)
    if (part.place == Place::device && is_wanted(part.what)) bytes += part.bytes;
  return bytes;
}
/// What is there whatever the size of micro-batches is.
std::size_t fixed_bytes(const PlannedRun& run) {
  return bytes_of(run, [](std::string_view what) {
    return what.ends_with(" state") || what.starts_with("reducer ");
  });
}
std::size_t image_bytes(const PlannedRun& run) {
  return bytes_of(run, [](std::string_view what) { return what == "resident images"; });
}
std::size_t graph_bytes(const PlannedRun& run) {
  return bytes_of(run, [](std::string_view what) { return what.ends_with(" CUDA graphs"); });
}

/// Whether the run would fit with a batch of other sizes, as far as is known.
using Fits = std::function<bool(std::int64_t batch_size, std::int64_t micro_batches)>;

/// The first of twice, four times, … as many micro-batches that fits; 0: none.
std::int64_t more_micro_batches(const PipelineOptions& pipeline, const Fits& fits) {
  const std::int64_t size = pipeline.batch_size;
  const std::int64_t most = std::min<std::int64_t>(size, largest_count);
  for (std::int64_t count = 2 * std::int64_t{pipeline.micro_batches}; count <= most; count *= 2)
    if (fits(size, count)) return count;
  return 0;
}

/// The largest batch size that fits; 0: none.
std::int64_t smaller_batch_size(const PipelineOptions& pipeline, const Fits& fits) {
  const std::int64_t count = pipeline.micro_batches;
  std::int64_t fitting = 0;  // samples of a micro-batch
  auto too_many = static_cast<std::int64_t>(micro_batch_samples(pipeline));
  while (too_many - fitting > 1) {
    const std::int64_t middle = std::midpoint(fitting, too_many);
    (fits(middle * count, count) ? fitting : too_many) = middle;
  }
  return fitting * count;
}

/// The batches that fit, as a remedy; empty if none does.
std::string batches_that_fit(const PipelineOptions& pipeline, const Fits& fits) {
  std::vector<std::string> ways;
  if (const std::int64_t count = more_micro_batches(pipeline, fits); count > 0)
    ways.push_back(
        fmt::format("raise train.micro_batches from {} to {}", pipeline.micro_batches, count));
  if (const std::int64_t size = smaller_batch_size(pipeline, fits); size > 0)
    ways.push_back(fmt::format("lower train.batch_size from {} to {}", pipeline.batch_size, size));
  return fmt::format("{}", fmt::join(ways, ", or "));
}

std::string what_to_change(const PlannedRun& run, std::size_t memory, std::size_t missing) {
  if (fixed_bytes(run) > memory)
    return fmt::format(
        "the weights' state and gradients alone take {}: choose a smaller model, or an optimizer "
        "with fewer tensors",
        bytes_text(fixed_bytes(run)));
  const std::size_t images = image_bytes(run), graphs = graph_bytes(run);
  if (images >= missing)
    return fmt::format("set data.resident to false: the images take {}", bytes_text(images));
  if (graphs >= missing)
    return fmt::format("set cuda_graphs to false: the graphs take {}", bytes_text(graphs));
  if (images + graphs >= missing)
    return fmt::format("set cuda_graphs and data.resident to false: they take {}",
                       bytes_text(images + graphs));
  const struct {
    bool graphs, images;
    std::string_view setting;
  } ways[] = {{true, true, ""},
              {true, false, "set data.resident to false; then "},
              {false, true, "set cuda_graphs to false; then "},
              {false, false, "set cuda_graphs and data.resident to false; then "}};
  for (const auto& way : ways) {
    if ((!way.graphs && graphs == 0) || (!way.images && images == 0)) continue;
    const auto fits = [&](std::int64_t batch_size, std::int64_t micro_batches) {
      return run.gpu_bytes(batch_size, micro_batches, way.graphs) <=
             memory + (way.images ? 0 : images);
    };
    const std::string batches = batches_that_fit(run.pipeline, fits);
    if (!batches.empty()) return fmt::format("{}{}", way.setting, batches);
  }
  return "lower train.batch_size and train.micro_batches together, choose a smaller model, or use "
         "fewer stages or replicas";
}

bool print_fit(const PlannedRun& run, std::size_t needed) {
  const PlannedGpu& gpu = *run.gpu;
  if (gpu.memory_bytes <= 0) return true;
  const auto all = static_cast<std::size_t>(gpu.memory_bytes);
  const std::size_t memory = all - std::min(all, assumed_context_bytes);
  print_out("{} has {}, of which the driver and CUDA take {} (assumed):\n", gpu.title,
            bytes_text(all), bytes_text(assumed_context_bytes));
  const std::size_t stages = run.pipeline.partition.size() * run.pipeline.replicas;
  const std::size_t uncounted = gpu.without_cudnn.empty() ? 0 : stages * plan_workspace_limit;
  if (needed > memory) {
    const std::size_t missing = needed + assumed_context_bytes - all;
    const std::size_t usable = memory - std::min(memory, uncounted);
    print_out("the run does not fit: it needs {} more\n  try: {}\n", bytes_text(missing),
              what_to_change(run, usable, missing + uncounted));
    return false;
  }
  const std::size_t remain = memory - needed;
  if (uncounted == 0)
    print_out("the run fits, and {} remain\n", bytes_text(remain));
  else if (remain >= uncounted)
    print_out("the run fits, and {} remain for cuDNN's workspaces\n", bytes_text(remain));
  else
    print_out("without cuDNN's workspaces, the run may fit, and {} remain\n", bytes_text(remain));
  return true;
}

}  // namespace

bool print_memory(const PlannedRun& run) {
  print_parts(run, Place::cpu, run.gpu ? " of the CPU" : "");
  print_out("a quarter is for larger blocks; the program itself needs about 50 MiB more\n");
  if (!run.gpu) return true;
  const std::size_t needed = print_parts(run, Place::device, " of the GPU");
  if (!run.gpu->without_cudnn.empty())
    print_out("cuDNN's workspaces, up to 2 GiB for each stage, are not counted: {}\n",
              run.gpu->without_cudnn);
  return print_fit(run, needed);
}

}  // namespace troupe

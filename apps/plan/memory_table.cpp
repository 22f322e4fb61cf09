// The bound of the memory that `troupe plan` prints.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "actors/pipeline_bytes.h"
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

std::string what_to_lower(const PlannedRun& run, std::size_t memory, std::size_t missing) {
  const PipelineOptions& pipeline = run.pipeline;
  if (fixed_bytes(run) + assumed_context_bytes > memory)
    return fmt::format(
        "the weights' state and gradients alone take {}: choose a smaller model, or an optimizer "
        "with fewer tensors",
        bytes_text(fixed_bytes(run)));
  if (image_bytes(run) >= missing)
    return fmt::format("set data.resident to false: the images take {}",
                       bytes_text(image_bytes(run)));
  if (graph_bytes(run) >= missing)
    return fmt::format("set cuda_graphs to false: the graphs take {}",
                       bytes_text(graph_bytes(run)));
  const std::size_t samples = micro_batch_samples(pipeline);
  std::string smaller_batch = fmt::format("lower train.batch_size ({})", pipeline.batch_size);
  if (samples <= 1) return smaller_batch;
  return fmt::format("raise train.micro_batches ({}, of {}), or {}", pipeline.micro_batches,
                     counted(static_cast<std::int64_t>(samples), "sample"), smaller_batch);
}

bool print_fit(const PlannedRun& run, std::size_t needed) {
  const PlannedGpu& gpu = *run.gpu;
  if (gpu.memory_bytes <= 0) return true;
  const auto memory = static_cast<std::size_t>(gpu.memory_bytes);
  const std::size_t with_context = needed + assumed_context_bytes;
  print_out("{} has {}, of which the driver and CUDA take {} (assumed):\n", gpu.title,
            bytes_text(memory), bytes_text(assumed_context_bytes));
  if (with_context > memory) {
    print_out("the run does not fit: {} are missing\n  try: {}\n",
              bytes_text(with_context - memory), what_to_lower(run, memory, with_context - memory));
    return false;
  }
  const std::size_t remain = memory - with_context;
  const bool counts_workspaces = gpu.without_cudnn.empty();
  const std::size_t stages = run.pipeline.partition.size() * run.pipeline.replicas;
  const bool certain = counts_workspaces || remain >= stages * plan_workspace_limit;
  print_out("{}the run {}, and {} remain\n",
            counts_workspaces ? "" : "without cuDNN's workspaces, ", certain ? "fits" : "may fit",
            bytes_text(remain));
  return true;
}

}  // namespace

bool print_memory(const PlannedRun& run) {
  bool fits = true;
  if (run.gpu) {
    const std::size_t needed = print_parts(run, Place::device, " of the GPU");
    fits = print_fit(run, needed);
    if (!run.gpu->without_cudnn.empty())
      print_out("cuDNN's workspaces, up to 2 GiB for each stage, are not counted: {}\n",
                run.gpu->without_cudnn);
  }
  print_parts(run, Place::cpu, run.gpu ? " of the CPU" : "");
  print_out("these are tensors and samples; the program itself needs about 50 MiB more\n");
  return fits;
}

}  // namespace troupe

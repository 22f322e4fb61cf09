#include "actors/memory_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "actors/pipeline.h"
#include "actors/pipeline_bytes.h"

namespace troupe {

std::size_t MemoryBound::total() const {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

namespace {

std::size_t replicas_here(const PipelineOptions& options, std::size_t stage,
                          std::uint32_t process) {
  std::size_t replicas = 0;
  for (std::uint32_t r = 0; r < options.replicas; ++r)
    replicas += process_of(options, stage, r) == process;
  return replicas;
}

// The sender's slots hold each message. One that leaves the process is held once more by the
// transport, and again by the receiving process.
void add_edges(MemoryBound& bound, const Graph& graph, std::uint32_t process) {
  std::size_t inside = 0, leaving = 0, coming = 0;
  for (const auto& edge : graph.edges()) {
    const std::size_t bytes = edge.options.slots * edge.options.slot_bytes;
    const bool from = graph.actors()[edge.from].process == process;
    const bool to = graph.actors()[edge.to].process == process;
    if (from) inside += bytes;
    if (from && !to) leaving += bytes;
    if (!from && to) coming += bytes;
  }
  bound.parts.push_back({"edges", inside});
  if (leaving) bound.parts.push_back({"sent to other processes", leaving});
  if (coming) bound.parts.push_back({"received from other processes", coming});
}

void add_stage(MemoryBound& bound, const PipelineOptions& options, std::size_t stage,
               std::size_t replicas) {
  const StageBytes bytes = stage_bytes(options, stage);
  std::size_t gradient = 0, largest_bucket = 0;
  for (const BucketBytes& bucket : bucket_bytes(options, stage)) {
    gradient += bucket.all();
    largest_bucket = std::max(largest_bucket, bucket.weights);
  }
  const StageSchedule schedule = schedule_of(options, stage);
  const std::size_t deferred = schedule.max_deferred() * bytes.deferred;
  const bool scales_loss = loss_scale_options(options) && stage + 1 == options.partition.size();
  // Of each micro-batch on its way back.
  const std::size_t scaled = scales_loss ? (1 + schedule.max_deferred()) * bytes.output : 0;
  const std::size_t activations =
      schedule.credits * bytes.saved + deferred + bytes.working + gradient + scaled;
  // The committed version, the next one, and the one that a checkpoint is being written from.
  const std::size_t copies =
      (options.writer ? std::size_t{3} : 2) * (1 + options.optimizer.state_names().size());
  bound.parts.push_back({fmt::format("stage {} activations", stage), activations * replicas});
  // Each bucket is clipped in a copy, and multiplied by a factor in another.
  const bool scales = loss_scale_options(options).has_value();
  const int changes =
      int{options.optimizer.clip_value() > 0} + int{options.optimizer.clip_norm() > 0 || scales};
  const std::size_t clipped = static_cast<std::size_t>(changes) * largest_bucket;
  bound.parts.push_back(
      {fmt::format("stage {} state", stage), (copies * bytes.state + clipped) * replicas});
  const std::size_t tree_nodes = std::bit_width(options.micro_batches) + 1u;
  const std::size_t reducers = reducer_shares(options, stage).size();
  // Of several reducers each has a second tree, over its chunk.
  const std::size_t chunks = reducers == 1 ? 0 : tree_nodes * gradient / reducers;
  // Steps that are being summed at once.
  const std::size_t open = 1 + options.staleness;
  bound.parts.push_back(
      {fmt::format("reducer {}", stage), open * (tree_nodes * gradient + chunks)});
}

}  // namespace

MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes, std::uint32_t process) {
  MemoryBound bound;
  const std::size_t loaders = replicas_here(options, 0, process);
  const auto readers = loaders * static_cast<std::size_t>(std::max(1, options.data.workers));
  bound.parts.push_back(
      {"data set", dataset_bytes + readers * options.data.dataset.bytes_per_thread()});
  add_edges(bound, graph, process);
  const std::size_t prepared = static_cast<std::size_t>(options.data.prefetch) *
                               micro_batch_samples(options) *
                               (sample_bytes(options) + target_bytes(options));
  if (loaders > 0) bound.parts.push_back({"loader, prepared ahead", prepared * loaders});
  // A stage runs one kernel at a time; scratch blocks grow to the largest request.
  std::size_t scratch = 0, cells = 0;
  for (const BlockCosts& block : options.block_costs)
    scratch = std::max(scratch, block.scratch_bytes);
  for (std::size_t s = 0; s < options.partition.size(); ++s)
    cells += replicas_here(options, s, process);
  bound.parts.push_back({"kernels' scratch", scratch * cells});
  for (std::size_t s = 0; s < options.partition.size(); ++s)
    if (const std::size_t replicas = replicas_here(options, s, process))
      add_stage(bound, options, s, replicas);
  // The allocator hands out blocks of size classes up to a quarter larger than what is asked for.
  for (auto& part : bound.parts) part.bytes += part.what == "data set" ? 0 : part.bytes / 4;
  return bound;
}

}  // namespace troupe

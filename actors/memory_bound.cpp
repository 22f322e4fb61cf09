#include "actors/memory_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "actors/pipeline.h"
#include "actors/pipeline_bytes.h"
#include "ops/gpu_sizes.h"

namespace troupe {

std::size_t MemoryBound::total() const { return total(Place::cpu) + total(Place::device); }

std::size_t MemoryBound::total(Place place) const {
  std::size_t sum = 0;
  for (const Part& part : parts)
    if (part.place == place) sum += part.bytes;
  return sum;
}

namespace {

using Place = MemoryBound::Place;

std::size_t replicas_here(const PipelineOptions& options, std::size_t stage,
                          std::uint32_t process) {
  std::size_t replicas = 0;
  for (std::uint32_t r = 0; r < options.replicas; ++r)
    replicas += process_of(options, stage, r) == process;
  return replicas;
}

/// Weights and the optimizer's tensors for each.
std::size_t tensors_of_a_weight(const PipelineOptions& options) {
  return 1 + options.optimizer.state_names().size();
}

/// Adds up the parts of one process.
class Bound {
 public:
  Bound(const PipelineOptions& options, const Graph& graph, std::uint32_t process)
      : options_(options),
        graph_(graph),
        process_(process),
        has_device_(options.stream.device != Device::cpu()),
        sent_on_device_(samples_device(options) != Device::cpu()) {}

  void add_data_set(std::size_t dataset_bytes);
  void add_edges();
  void add_scratch();
  void add_stages();
  void add_starting_states();
  /// What a device has besides, and what the CPU has for it.
  void add_copies();
  MemoryBound take();

 private:
  Place computing() const { return has_device_ ? Place::device : Place::cpu; }
  std::size_t replicas(std::size_t stage) const { return replicas_here(options_, stage, process_); }
  std::size_t last_stage() const { return options_.partition.size() - 1; }
  void add(std::string what, std::size_t bytes, Place place) {
    bound_.parts.push_back({std::move(what), bytes, place});
  }
  void add_stage(std::size_t stage, std::size_t replicas);
  void add_graphs(std::size_t stage, std::size_t replicas);
  std::size_t lanes(std::size_t stage) const;
  std::size_t class_weights_bytes() const {
    return options_.loss.class_weights.size() * size_of(DType::f64);
  }
  std::size_t pinned_bytes() const;
  std::size_t pinned_for_images() const;

  const PipelineOptions& options_;
  const Graph& graph_;
  std::uint32_t process_;
  bool has_device_, sent_on_device_;
  MemoryBound bound_;
};

constexpr std::size_t smallest_block = 256;  // of an allocator
constexpr const char *data_set = "data set", *pinned = "pinned memory";

void Bound::add_data_set(std::size_t dataset_bytes) {
  const std::size_t loaders = replicas(0);
  const auto readers = loaders * static_cast<std::size_t>(std::max(1, options_.data.workers));
  add(data_set, dataset_bytes + readers * options_.data.dataset.bytes_per_thread(), Place::cpu);
  const std::size_t prepared = static_cast<std::size_t>(options_.data.prefetch) *
                               micro_batch_samples(options_) *
                               (prepared_bytes(options_) + target_bytes(options_));
  if (loaders > 0) add("loader, prepared ahead", prepared * loaders, Place::cpu);
  if (const std::size_t resident = resident_bytes(options_); resident > 0 && loaders > 0)
    add("resident images", resident, Place::device);
}

// The sender's slots hold each message. One that leaves the process is held once more by the
// transport, and again by the receiving process.
void Bound::add_edges() {
  std::size_t inside[2] = {}, leaving = 0, coming = 0;
  for (const auto& edge : graph_.edges()) {
    const std::size_t bytes = edge.options.slots * edge.options.slot_bytes;
    const bool from = graph_.actors()[edge.from].process == process_;
    const bool to = graph_.actors()[edge.to].process == process_;
    if (from) inside[edge.options.device == Device::cpu() ? 0 : 1] += bytes;
    if (from && !to) leaving += bytes;
    if (!from && to) coming += bytes;
  }
  add("edges", inside[0], Place::cpu);
  if (has_device_) add("edges", inside[1], Place::device);
  if (leaving) add("sent to other processes", leaving, Place::cpu);
  if (coming) add("received from other processes", coming, Place::cpu);
}

// A stage runs one kernel at a time. On a CPU, where stages share threads, the blocks of all grow
// to the largest request; on a device each stage asks for its own.
void Bound::add_scratch() {
  const auto& costs = options_.block_costs;
  std::size_t largest = 0, of_stages = 0, cells = 0, block = 0;
  for (std::size_t s = 0; s < options_.partition.size(); ++s) {
    std::size_t of_stage = 0;
    for (std::size_t i = 0; i < options_.partition[s] && block < costs.size(); ++i, ++block)
      of_stage = std::max(of_stage, costs[block].scratch_bytes());
    largest = std::max(largest, of_stage);
    of_stages += of_stage * replicas(s);
    cells += replicas(s);
  }
  add(has_device_ ? "workspaces of kernels" : "kernels' scratch",
      has_device_ ? of_stages : largest * cells, computing());
}

void Bound::add_stages() {
  for (std::size_t s = 0; s < options_.partition.size(); ++s)
    if (const std::size_t here = replicas(s)) {
      add_stage(s, here);
      if (options_.cuda_graphs && has_device_) add_graphs(s, here);
    }
}

// Of each size of micro-batches as many as can be in flight at once.
std::size_t Bound::lanes(std::size_t stage) const {
  const StageSchedule schedule = schedule_of(options_, stage);
  const std::size_t in_flight = schedule.credits + schedule.max_deferred();
  const std::size_t larger = larger_micro_batches(options_);
  if (larger == 0) return in_flight;
  return std::min(in_flight, larger) + std::min(in_flight, options_.micro_batches - larger);
}

// Beside what passes without graphs take: those of a smaller batch run too.
void Bound::add_graphs(std::size_t stage, std::size_t replicas) {
  const StageBytes bytes = stage_bytes(options_, stage);
  std::size_t gradient = 0;
  for (const BucketBytes& bucket : bucket_bytes(options_, stage)) gradient += bucket.all();
  // Memory of one size does not serve for another: blocks of one kind share what they work in.
  std::set<std::size_t> working, workspaces;
  for (const BlockRange& range : blocks_of(options_, stage))
    for (std::size_t b = range.first; b < range.last; ++b) {
      const BlockCosts& costs = options_.block_costs[b];
      working.insert(costs.working_bytes);
      workspaces.insert(costs.scratch_sizes.begin(), costs.scratch_sizes.end());
    }
  const auto all_of = [](const std::set<std::size_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  };
  const std::size_t samples = micro_batch_samples(options_);
  const std::size_t input =
      stage == 0 ? samples * sample_bytes(options_) : stage_bytes(options_, stage - 1).output;
  // Of the first stage, what it computes with lies there besides.
  const std::size_t taken = stage == 0 ? samples * input_bytes(options_) : 0;
  // Inputs and results of a pass, and all that it holds between them, for as long as the run goes.
  const std::size_t pass = bytes.saved + bytes.deferred + all_of(working) + all_of(workspaces);
  const std::size_t lane = pass + 2 * input + taken + 2 * bytes.widened + gradient;
  const std::size_t evaluation = pass + input + taken + bytes.output;
  // The weights, the average if there is one, and the buffers.
  const std::size_t placed = (options_.optimizer.average_decay() > 0 ? 2 : 1) * bytes.state;
  add(fmt::format("stage {} CUDA graphs", stage),
      (lanes(stage) * lane + evaluation + placed) * replicas, Place::device);
}

void Bound::add_stage(std::size_t stage, std::size_t replicas) {
  const StageBytes bytes = stage_bytes(options_, stage);
  std::size_t gradient = 0, largest_bucket = 0;
  for (const BucketBytes& bucket : bucket_bytes(options_, stage)) {
    gradient += bucket.all();
    largest_bucket = std::max(largest_bucket, bucket.weights);
  }
  const StageSchedule schedule = schedule_of(options_, stage);
  const std::size_t deferred = schedule.max_deferred() * bytes.deferred;
  const bool scales_loss = loss_scale_options(options_) && stage + 1 == options_.partition.size();
  // Of each micro-batch on its way back.
  const std::size_t scaled = scales_loss ? (1 + schedule.max_deferred()) * bytes.widened : 0;
  const std::size_t activations =
      schedule.credits * bytes.saved + deferred + bytes.working + gradient + scaled;
  // The committed version, the next one, and the one that a checkpoint is being written from.
  const std::size_t copies = (options_.writer ? std::size_t{3} : 2) * tensors_of_a_weight(options_);
  add(fmt::format("stage {} activations", stage), activations * replicas, computing());
  const Optimizer& optimizer = options_.optimizer;
  const bool has_factor = optimizer.clip_norm() > 0 || loss_scale_options(options_).has_value();
  // Replicas share the gradient: what `update` of an optimizer gets is scaled in copies.
  const int copies_of_gradients =
      optimizer.scales_gradients() ? 0 : int{optimizer.clip_value() > 0} + int{has_factor};
  const std::size_t scaled_copies = static_cast<std::size_t>(copies_of_gradients) * largest_bucket;
  add(fmt::format("stage {} state", stage),
      (copies * bytes.state + bytes.kept + scaled_copies) * replicas, computing());
  const std::size_t tree_nodes = std::bit_width(options_.micro_batches) + 1u;
  const std::size_t reducers = reducer_shares(options_, stage).size();
  // Of several reducers each has a second tree, over its chunk.
  const std::size_t chunks = reducers == 1 ? 0 : tree_nodes * gradient / reducers;
  // Steps that are being summed at once.
  const std::size_t open = 1 + options_.staleness;
  add(fmt::format("reducer {}", stage), open * (tree_nodes * gradient + chunks), computing());
}

// A device's states begin in the CPU's memory: random weights are made there, one for each replica,
// and what replicas get from a checkpoint stays there until the first commit. Where the CPU
// computes, it is the first version of a stage's state, unless `initial` stays in the options.
void Bound::add_starting_states() {
  if (!has_device_ && options_.initial.empty()) return;
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < options_.partition.size(); ++s)
    if (const std::size_t here = replicas(s))
      bytes += std::max(here, tensors_of_a_weight(options_)) * stage_bytes(options_, s).state;
  add("starting state", bytes, Place::cpu);
}

void Bound::add_copies() {
  if (!has_device_) return;
  const std::size_t samples = micro_batch_samples(options_);
  // Each micro-batch that the first stage works on, one that it evaluates, and of one what it is
  // made of, if it does not come on the device: bytes that were copied. Or windows that its loader
  // takes from resident images.
  const bool has_bytes =
      pixels_for(transform_options(options_), options_.data.dataset.samples()).defined();
  const bool resident = has_resident_images(options_);
  const std::size_t bytes = resident ? std::max(samples * prepared_bytes(options_), smallest_block)
                            : has_bytes && !sent_on_device_
                                ? samples * input_bytes(options_) / size_of(options_.dtype)
                                : 0;
  if (const std::size_t here = replicas(0))
    add("samples",
        here * ((schedule_of(options_, 0).credits + 1u) * samples * input_bytes(options_) + bytes),
        Place::device);
  // The loss computes one micro-batch at a time, in f32; of a mixed one, a second gradient.
  const StageBytes last = stage_bytes(options_, last_stage());
  const std::size_t copied = last.widened > last.output ? last.widened : 0;
  const std::size_t mixed = copied + (options_.data.mix.any() ? last.widened : 0);
  if (const std::size_t here = replicas(last_stage()))
    add("loss", here * (samples * target_bytes(options_) + mixed + class_weights_bytes()),
        Place::device);
  std::size_t written = 0;
  for (std::size_t s = 0; s < options_.partition.size(); ++s)
    if (options_.writer && process_of(options_, s, 0) == process_)
      written += tensors_of_a_weight(options_) * stage_bytes(options_, s).state;
  if (written) add("checkpoint, being written", written, Place::cpu);
  add(pinned, pinned_bytes(), Place::cpu);
}

// The host may have read all images before the device has copied the first ones. Each split ends
// with a piece that does not fill its block. Windows are prepared ahead, and those of sent samples
// stay until the device has copied them.
std::size_t Bound::pinned_for_images() const {
  const std::size_t windows = micro_batch_samples(options_) * prepared_bytes(options_);
  const std::size_t prepared =
      static_cast<std::size_t>(options_.data.prefetch) + loader_slots(options_);
  return resident_bytes(options_) + 2 * copied_piece_bytes +
         replicas(0) * prepared * pinned_block(windows);
}

// Copies go through pinned memory, in blocks of powers of two: each message between the CPU and the
// device, the states when a run begins, the random keys of CUDA graphs and the weights of classes.
// The host may give work for all messages in an actor's slots before the device has copied for the
// first. Samples are counted here although most are prepared in such memory: those that are
// converted to another type are not.
std::size_t Bound::pinned_bytes() const {
  std::size_t sum = 0;
  for (const auto& edge : graph_.edges()) {
    const bool crosses = edge.options.device == Device::cpu() && edge.options.slot_bytes > 0;
    const bool here = graph_.actors()[edge.from].process == process_ ||
                      graph_.actors()[edge.to].process == process_;
    if (crosses && here) sum += edge.options.slots * pinned_block(edge.options.slot_bytes);
  }
  for (std::size_t s = 0; s < options_.partition.size(); ++s) {
    const std::vector<BucketBytes> buckets = bucket_bytes(options_, s);
    std::size_t weights = 0;
    for (const BucketBytes& bucket : buckets) weights += bucket.weights;
    sum += replicas(s) * (tensors_of_a_weight(options_) * pinned_block(weights) +
                          pinned_block(buckets.front().statistics));
    if (options_.cuda_graphs)
      sum += replicas(s) * (lanes(s) + loader_slots(options_)) * pinned_block(0);
  }
  if (const std::size_t bytes = class_weights_bytes()) {
    const std::size_t losses = options_.data.mix.any() ? 2 : 1;  // of a micro-batch
    sum += replicas(last_stage()) * losses *
           slots_to_loss(schedule_of(options_, last_stage())).outputs * pinned_block(bytes);
  }
  if (has_resident_images(options_))
    sum += pinned_for_images();
  else if (sent_on_device_)
    sum += replicas(0) * loader_slots(options_) *
           pinned_block(micro_batch_samples(options_) * sample_bytes(options_));
  return sum;
}

// The allocators hand out blocks of size classes up to a quarter larger than what is asked for.
MemoryBound Bound::take() {
  for (auto& part : bound_.parts)
    if (part.what != data_set && part.what != pinned) part.bytes += part.bytes / 4;
  return std::move(bound_);
}

}  // namespace

MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes, std::uint32_t process) {
  Bound bound(options, graph, process);
  bound.add_data_set(dataset_bytes);
  bound.add_edges();
  bound.add_scratch();
  bound.add_stages();
  bound.add_starting_states();
  bound.add_copies();
  return bound.take();
}

}  // namespace troupe

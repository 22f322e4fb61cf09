#include "actors/pipeline.h"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <numeric>

#include "actors/loss.h"
#include "actors/reducer.h"
#include "actors/shard_writer.h"

namespace troupe {
namespace {

// Micro-batches a loader may have sent beyond those that the first stage works on.
constexpr std::uint32_t ahead = 2;

struct StageBytes {
  std::size_t output = 0, saved = 0, working = 0, state = 0;
  std::size_t gradient = 0;    ///< of a micro-batch, statistics included
  std::size_t statistics = 0;  ///< of a micro-batch
};

// Of the blocks [first, last); zeros without a profile.
StageBytes stage_bytes(const PipelineOptions& options, std::size_t first, std::size_t last) {
  StageBytes bytes;
  for (std::size_t b = first; b < std::min(last, options.profile.size()); ++b) {
    const BlockProfile& block = options.profile[b];
    bytes.output = block.output_bytes;
    bytes.saved += block.saved_bytes;
    bytes.working = std::max(bytes.working, block.working_bytes);
    bytes.gradient += block.gradient_bytes;
    bytes.statistics +=
        block.gradient_bytes - static_cast<std::size_t>(block.parameters) * size_of(options.dtype);
    bytes.state += block.state_bytes;
  }
  return bytes;
}

StageBytes bytes_of_stage(const PipelineOptions& options, std::size_t stage) {
  const auto cut = options.cut.begin();
  const auto first = std::accumulate(cut, cut + static_cast<std::ptrdiff_t>(stage), std::size_t{0});
  return stage_bytes(options, first, first + options.cut[stage]);
}

std::size_t sample_bytes(const PipelineOptions& options) {
  const Shape& sample = options.data.dataset.sample_shape();
  return static_cast<std::size_t>(sample.element_count()) * size_of(options.dtype);
}

std::size_t micro_batch_samples(const PipelineOptions& options) {
  return static_cast<std::size_t>((options.batch_size + options.micro_batches - 1) /
                                  options.micro_batches);
}

std::uint32_t replica_micro_batches(const PipelineOptions& options) {
  return (options.micro_batches + options.replicas - 1) / options.replicas;
}

/// What of a column of replicas the whole graph shares.
struct Common {
  std::vector<std::vector<ActorRef<Reducer>>> reducers;  ///< by stage and replica
  ActorRef<Monitor> monitor;
  std::optional<ActorRef<CheckpointWriter>> writer;
  std::map<std::uint32_t, ActorRef<ShardWriter>> shard_writers;  ///< by process
};

StageOptions stage_options(const PipelineOptions& options, std::size_t stage,
                           std::uint32_t replica) {
  const std::size_t first =
      std::accumulate(options.cut.begin(), options.cut.begin() + static_cast<std::ptrdiff_t>(stage),
                      std::size_t{0});
  NetworkProgramOptions program{
      .model = options.model,
      .first = first,
      .last = options.cut[stage] == SIZE_MAX ? SIZE_MAX : first + options.cut[stage],
      .dtype = options.dtype,
      .stream = options.stream,
      .seed = options.seed,
      .initial = options.initial.empty() ? nullptr : options.initial[stage]};
  ProgramFactory factory = network_program(std::move(program));
  if (options.around) factory = options.around(stage, std::move(factory));
  return {.program = std::move(factory),
          .schedule = stage_schedule(options.schedule, stage, options.cut.size(),
                                     replica_micro_batches(options)),
          .stage = stage,
          .replica = replica,
          .replicas = options.replicas,
          .seed = options.seed,
          .rate = learning_rate_options(options),
          .sgd = options.sgd};
}

void add_replica(Graph& graph, const PipelineOptions& options, const Common& common,
                 std::uint32_t replica) {
  const auto name = [&](const std::string& base) {
    return replica_name(base, replica, options.replicas);
  };
  const auto loader = graph.add<Loader>(name("loader"), loader_options(options, replica));
  const auto loss = graph.add<Loss>(name("loss"), LossOptions{options.stream});
  std::vector<ActorRef<Stage>> stages;
  for (std::size_t s = 0; s < options.cut.size(); ++s) {
    stages.push_back(
        graph.add<Stage>(name(fmt::format("stage/{}", s)), stage_options(options, s, replica)));
    graph.place(stages.back(), process_of(options, s, replica));
  }
  graph.place(loader, process_of(options, 0, replica));
  graph.place(loss, process_of(options, options.cut.size() - 1, replica));

  const std::size_t samples = micro_batch_samples(options);
  const MicroBatchRange own = micro_batch_range(options.micro_batches, replica, options.replicas);
  const auto each = [&](std::uint32_t slots, std::size_t bytes) {
    return EdgeOptions{slots, bytes, (own.last - own.first) * bytes};
  };
  const std::uint32_t fed = stage_options(options, 0, replica).schedule.credits + ahead;
  graph.connect(loader, &Loader::images, stages.front(), &Stage::input,
                each(fed, samples * sample_bytes(options)));
  graph.connect(loader, &Loader::targets, loss, &Loss::targets,
                each(fed, samples * sizeof(std::int64_t)));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageBytes bytes = bytes_of_stage(options, s);
    const std::uint32_t credits = stage_options(options, s, replica).schedule.credits;
    if (s + 1 < stages.size()) {
      graph.connect(stages[s], &Stage::output, stages[s + 1], &Stage::input,
                    each(credits, bytes.output));
      graph.connect(stages[s + 1], &Stage::input_gradient, stages[s], &Stage::output_gradient,
                    each(2, bytes.output));
    } else {
      graph.connect(stages[s], &Stage::output, loss, &Loss::logits, each(2, bytes.output));
      // A stage that flushes takes no gradient before its last forward: they all wait in their
      // slots.
      graph.connect(loss, &Loss::logits_gradient, stages[s], &Stage::output_gradient,
                    each(credits + 1, bytes.output));
    }
    const auto reducer = common.reducers[s][replica];
    graph.connect(stages[s], &Stage::gradient, reducer, &Reducer::gradient,
                  each(2, bytes.gradient));
    const std::size_t reduced =
        bytes.gradient - bytes.statistics + options.micro_batches * bytes.statistics;
    graph.connect(reducer, &Reducer::reduced, stages[s], &Stage::reduced, {1, reduced, reduced});
    // Replicas hold the same state: one of them is enough for a checkpoint.
    if (!common.writer || replica != 0) continue;
    const auto elsewhere = common.shard_writers.find(process_of(options, s, 0));
    if (elsewhere == common.shard_writers.end()) {
      graph.connect(stages[s], &Stage::snapshot, *common.writer, &CheckpointWriter::snapshot,
                    {2, 0});
    } else {
      graph.connect(stages[s], &Stage::snapshot, elsewhere->second, &ShardWriter::snapshot, {2, 0});
    }
  }
  graph.connect(loss, &Loss::score, common.monitor, &Monitor::score, each(64, sizeof(Score)));
}

/// Replicas of a stage that share a process, in their order.
std::vector<std::uint32_t> shares(const PipelineOptions& options, std::size_t stage) {
  std::vector<std::uint32_t> shares;
  for (std::uint32_t r = 0; r < options.replicas; ++r) {
    if (r == 0 || process_of(options, stage, r) != process_of(options, stage, r - 1))
      shares.push_back(0);
    ++shares.back();
  }
  return shares;
}

/// Sums that a tree over all micro-batches is left with when it has heard of these only.
std::size_t sums_of(MicroBatchRange range, std::uint32_t micro_batches) {
  std::size_t sums = 0;
  for (std::uint32_t begin = range.first; begin < range.last; ++sums) {
    std::uint64_t size = 1;  // of the largest node of the tree that begins here and lies within
    while (begin % (2 * size) == 0 && size < micro_batches &&
           std::min<std::uint64_t>(begin + 2 * size, micro_batches) <= range.last)
      size *= 2;
    begin = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + size, range.last));
  }
  return sums;
}

/// What a reducer sends another one in a step: the other's chunk of its sums, and statistics.
std::size_t partial_bytes(const PipelineOptions& options, const StageBytes& bytes,
                          MicroBatchRange own, std::size_t reducers) {
  const std::size_t chunk = (bytes.gradient - bytes.statistics) / reducers;
  return sums_of(own, options.micro_batches) * chunk + (own.last - own.first) * bytes.statistics;
}

/// The reducers of a stage, each told of the others; returned by replica.
std::vector<ActorRef<Reducer>> add_reducers(Graph& graph, const PipelineOptions& options,
                                            std::size_t stage) {
  const std::vector<std::uint32_t> groups = shares(options, stage);
  std::vector<ActorRef<Reducer>> reducers, by_replica;
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::string name = fmt::format("reducer/{}", stage);
    reducers.push_back(
        graph.add<Reducer>(groups.size() == 1 ? name : fmt::format("{}/{}", name, g),
                           ReducerOptions{options.dtype, options.stream, groups, g}));
    graph.place(reducers[g],
                process_of(options, stage, static_cast<std::uint32_t>(by_replica.size())));
    by_replica.insert(by_replica.end(), groups[g], reducers[g]);
  }
  const StageBytes bytes = bytes_of_stage(options, stage);
  const std::size_t chunk = (bytes.gradient - bytes.statistics) / groups.size();
  std::uint32_t replica = 0;
  for (std::uint32_t from = 0; from < reducers.size(); replica += groups[from++]) {
    const MicroBatchRange own{
        micro_batch_range(options.micro_batches, replica, options.replicas).first,
        micro_batch_range(options.micro_batches, replica + groups[from] - 1, options.replicas)
            .last};
    const std::size_t partial = partial_bytes(options, bytes, own, groups.size());
    for (std::uint32_t to = 0; to < reducers.size(); ++to) {
      if (from == to) continue;
      graph.connect(reducers[from], [to](Reducer& reducer) { return reducer.partial(to); },
                    reducers[to], &Reducer::partials, {1, partial, partial});
      graph.connect(reducers[from], &Reducer::chunk, reducers[to], &Reducer::chunks,
                    {1, chunk, chunk});
    }
  }
  return by_replica;
}

MonitorOptions monitor_options(const PipelineOptions& options) {
  return {.timeline = timeline_of(options),
          .stop_on_nan = options.stop_on_nan,
          .test_count = options.data.dataset.count(Split::test),
          .on_step = options.on_step,
          .on_counting = options.on_counting,
          .on_evaluation = options.on_evaluation};
}

/// Stages whose first replica lives in each process: those that are written there.
std::map<std::uint32_t, std::size_t> written_stages(const PipelineOptions& options) {
  std::map<std::uint32_t, std::size_t> stages;
  for (std::size_t s = 0; s < options.cut.size(); ++s) ++stages[process_of(options, s, 0)];
  return stages;
}

/// The checkpoint writer in process 0, and one for the shards of each other process.
void add_writers(Graph& graph, const PipelineOptions& options, Common& common) {
  const auto stages = written_stages(options);
  for (const auto& [process, count] : stages) {
    CheckpointWriterOptions writer = *options.writer;
    writer.stages = count;
    writer.others = stages.size() - 1;
    if (process == 0) {
      common.writer = graph.add<CheckpointWriter>("writer", std::move(writer));
      continue;
    }
    const auto shards =
        graph.add<ShardWriter>(fmt::format("writer/{}", process), std::move(writer));
    graph.place(shards, process);
    graph.connect(shards, &ShardWriter::shards, *common.writer, &CheckpointWriter::shards, {2, 0});
    common.shard_writers.emplace(process, shards);
  }
}

SamplerOptions sampler_options(const PipelineOptions& options) {
  return {.seed = options.seed,
          .samples = options.data.dataset.count(Split::train),
          .batch_size = options.batch_size,
          .micro_batches = options.micro_batches,
          .replicas = options.replicas,
          .shuffle = options.data.shuffle,
          .drop_last = options.data.drop_last};
}

}  // namespace

LoaderOptions loader_options(const PipelineOptions& options, std::uint32_t replica) {
  const PipelineData& data = options.data;
  return {.dataset = data.dataset,
          .transform = {.seed = options.seed,
                        .augment = data.augment,
                        .mean = data.mean,
                        .std = data.std,
                        .dtype = options.dtype},
          .sampler = sampler_options(options),
          .replica = replica,
          .timeline = timeline_of(options),
          .workers = data.workers,
          .prefetch = data.prefetch};
}

Timeline timeline_of(const PipelineOptions& options) {
  const std::int64_t per_epoch = Sampler(sampler_options(options)).batches_per_epoch();
  std::int64_t steps = options.epochs * per_epoch;
  if (options.max_steps > 0) steps = std::min<std::int64_t>(steps, options.max_steps);
  if (steps < 0 || steps > UINT32_MAX)
    throw Error(ErrorCode::bad_options, fmt::format("a run of {} steps", steps),
                "train for at most 4294967295");
  return {.steps = static_cast<std::uint32_t>(steps),
          .steps_per_epoch = static_cast<std::uint32_t>(per_epoch),
          .evaluates = options.evaluates,
          .first = options.first_step,
          .evaluates_first = options.evaluates_first};
}

LearningRateOptions learning_rate_options(const PipelineOptions& options) {
  LearningRateOptions rate = options.rate;
  rate.steps_per_epoch = Sampler(sampler_options(options)).batches_per_epoch();
  rate.total_steps = options.epochs * rate.steps_per_epoch;
  return rate;
}

std::string replica_name(const std::string& base, std::uint32_t replica, std::uint32_t replicas) {
  return replicas == 1 ? base : fmt::format("{}/{}", base, replica);
}

std::uint32_t process_of(const PipelineOptions& options, std::size_t stage, std::uint32_t replica) {
  const std::size_t cells = options.cut.size() * options.replicas;
  const std::size_t cell = stage * options.replicas + replica;
  return static_cast<std::uint32_t>(cell * options.processes / cells);
}

Graph build_pipeline(const PipelineOptions& options) {
  const Dataset& data = options.data.dataset;
  if (data.classes() > options.model.classes)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} has {} classes, the model tells {} apart", data.name(),
                            data.classes(), options.model.classes),
                "give the model at least as many classes");
  Graph graph;
  Common common;
  const std::size_t cells = options.cut.size() * options.replicas;
  if (options.processes > cells)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} processes for {} stages × {} replicas", options.processes,
                            options.cut.size(), options.replicas),
                fmt::format("start {} processes, or set parallel.pipeline × parallel.data to {}",
                            cells, options.processes));
  for (std::size_t s = 0; s < options.cut.size(); ++s)
    common.reducers.push_back(add_reducers(graph, options, s));
  common.monitor = graph.add<Monitor>("monitor", monitor_options(options));
  if (options.writer) add_writers(graph, options, common);
  for (std::uint32_t r = 0; r < options.replicas; ++r) add_replica(graph, options, common, r);
  return graph;
}

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

// A sender holds what its slots hold. What leaves the process is there once more, in the memory of
// the transport, and again where it is received.
void add_edges(MemoryBound& bound, const Graph& graph, std::uint32_t process) {
  std::size_t inside = 0, leaving = 0, coming = 0;
  for (const auto& edge : graph.edges()) {
    const std::size_t bytes = edge.options.slots * edge.options.slot_bytes;
    const bool from = graph.nodes()[edge.from].process == process;
    const bool to = graph.nodes()[edge.to].process == process;
    if (from) inside += bytes;
    if (from && !to) leaving += bytes;
    if (!from && to) coming += bytes;
  }
  bound.parts.push_back({"edges", inside});
  if (leaving) bound.parts.push_back({"sent to other processes", leaving});
  if (coming) bound.parts.push_back({"come from other processes", coming});
}

void add_stage(MemoryBound& bound, const PipelineOptions& options, std::size_t stage,
               std::size_t replicas) {
  const StageBytes bytes = bytes_of_stage(options, stage);
  const std::size_t credits = stage_options(options, stage, 0).schedule.credits;
  const std::size_t activations = credits * bytes.saved + bytes.working + bytes.gradient;
  // The committed version, the next one, and the one that a checkpoint is being written from.
  const std::size_t copies =
      (options.writer ? std::size_t{3} : 2) * (options.sgd.momentum != 0 ? 2 : 1);
  bound.parts.push_back({fmt::format("stage {} activations", stage), activations * replicas});
  bound.parts.push_back({fmt::format("stage {} state", stage), copies * bytes.state * replicas});
  const std::size_t tree_nodes = std::bit_width(options.micro_batches) + 1u;
  const std::size_t reducers = shares(options, stage).size();
  // Of several reducers each has a second tree, over its chunk.
  const std::size_t chunks = reducers == 1 ? 0 : tree_nodes * bytes.gradient / reducers;
  bound.parts.push_back({fmt::format("reducer {}", stage), tree_nodes * bytes.gradient + chunks});
}

}  // namespace

MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes, std::uint32_t process) {
  MemoryBound bound;
  bound.parts.push_back({"data set", dataset_bytes});
  add_edges(bound, graph, process);
  const std::size_t prepared = static_cast<std::size_t>(options.data.prefetch) *
                               micro_batch_samples(options) *
                               (sample_bytes(options) + sizeof(std::int64_t));
  if (const std::size_t loaders = replicas_here(options, 0, process))
    bound.parts.push_back({"loader, prepared ahead", prepared * loaders});
  // A stage runs one kernel at a time; blocks grow to the largest wish of all.
  std::size_t scratch = 0, cells = 0;
  for (const BlockProfile& block : options.profile)
    scratch = std::max(scratch, block.scratch_bytes);
  for (std::size_t s = 0; s < options.cut.size(); ++s) cells += replicas_here(options, s, process);
  bound.parts.push_back({"kernels' scratch", scratch * cells});
  for (std::size_t s = 0; s < options.cut.size(); ++s)
    if (const std::size_t replicas = replicas_here(options, s, process))
      add_stage(bound, options, s, replicas);
  // The allocator hands out blocks of size classes up to a quarter larger than what is asked for.
  for (auto& part : bound.parts) part.bytes += part.what == "data set" ? 0 : part.bytes / 4;
  return bound;
}

}  // namespace troupe

#include "actors/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "actors/gradient_norm.h"
#include "actors/loss.h"
#include "actors/options_text.h"
#include "actors/pipeline_bytes.h"
#include "actors/reducer.h"
#include "actors/shard_writer.h"
#include "runtime/text.h"

namespace troupe {
namespace {

// Of a score: one tensor, or two of mixed samples, in the smallest blocks that the allocator has.
constexpr std::size_t score_bytes = std::size_t{2} * 256;

/// What all replicas of the graph share.
struct Common {
  std::size_t first_trained = 0;                                      ///< block of the model
  std::vector<std::vector<BucketBytes>> buckets;                      ///< by stage and bucket
  std::vector<std::vector<std::vector<ActorRef<Reducer>>>> reducers;  ///< and then by replica
  ActorRef<Monitor> monitor;
  std::optional<ActorRef<GradientNorm>> norm;  ///< if gradients are clipped by it, or scaled
  std::optional<ActorRef<CheckpointWriter>> writer;
  std::map<std::uint32_t, ActorRef<ShardWriter>> shard_writers;  ///< by process
  std::shared_ptr<ResidentImages> images;                        ///< null: they are not resident
  Device samples_on;                                             ///< samples_device()
};

SamplerOptions sampler_options(const PipelineOptions& options) {
  return {.seed = options.seed,
          .samples = options.data.dataset.count(Split::train),
          .batch_size = options.batch_size,
          .micro_batches = options.micro_batches,
          .replicas = options.replicas,
          .shuffle = options.data.shuffle,
          .drop_last = options.data.drop_last};
}

StageOptions stage_options(const PipelineOptions& options, std::size_t stage, std::uint32_t replica,
                           const Common& common) {
  NetworkProgramOptions program{.model = options.model,
                                .samples = options.data.dataset.samples(),
                                .blocks = blocks_of(options, stage),
                                .dtype = options.dtype,
                                .stream = options.stream,
                                .seed = options.seed,
                                .freezes = freezes_of(options),
                                .graph_shapes = !options.cuda_graphs                 ? 0U
                                                : larger_micro_batches(options) == 0 ? 1U
                                                                                     : 2U};
  if (stage == 0)
    program.pixels = pixels_for(transform_options(options), options.data.dataset.samples());
  for (const BucketBytes& bucket : common.buckets[stage]) program.buckets.push_back(bucket.blocks);
  ProgramFactory factory = network_program(std::move(program));
  if (options.around)
    factory.make = [around = options.around, stage, make = std::move(factory.make)](
                       const Stream& on, StatePtr state) {
      return around(stage, make(on, std::move(state)));
    };
  const auto& initial = options.initial;
  return {.program = std::move(factory),
          .starting_state = initial.empty() ? nullptr : std::make_shared<StatePtr>(initial[stage]),
          .schedule = schedule_of(options, stage),
          .stage = stage,
          .replica = replica,
          .replicas = options.replicas,
          .seed = options.seed,
          .rate = learning_rate_options(options),
          .optimizer = options.optimizer,
          .loss_scale = loss_scale_options(options),
          .last = stage + 1 == options.partition.size(),
          .trained_before = common.first_trained < blocks_of(options, stage).front().first,
          .staleness = options.staleness,
          .micro_batches = [sampler = Sampler(sampler_options(options))](std::uint32_t step) {
            return static_cast<std::uint32_t>(
                sampler.micro_batch_count(step % sampler.batches_per_epoch()));
          }};
}

/// The actors of one replica.
struct Column {
  std::uint32_t replica = 0;
  MicroBatchRange own;  ///< its micro-batches of a step
  ActorRef<Loader> loader;
  ActorRef<Loss> loss;
  std::vector<ActorRef<Stage>> stages;

  EdgeOptions each(std::uint32_t slots, std::size_t bytes, Device device = {}) const {
    return {slots, bytes, (own.last - own.first) * bytes, device};
  }
};

Column add_column(Graph& graph, const PipelineOptions& options, const Common& common,
                  std::uint32_t replica) {
  const auto name = [&](const std::string& base) {
    return options.replicas == 1 ? base : fmt::format("{}/{}", base, replica);
  };
  LoaderOptions loader = loader_options(options, replica);
  loader.resident = common.images;
  loader.device = common.samples_on;
  Column column{.replica = replica,
                .own = micro_batch_range(options.micro_batches, replica, options.replicas),
                .loader = graph.add<Loader>(name("loader"), std::move(loader)),
                .loss = graph.add<Loss>(name("loss"), LossOptions{options.stream, options.loss}),
                .stages = {}};
  for (std::size_t s = 0; s < options.partition.size(); ++s) {
    column.stages.push_back(graph.add<Stage>(name(fmt::format("stage/{}", s)),
                                             stage_options(options, s, replica, common)));
    graph.place(column.stages.back(), process_of(options, s, replica));
  }
  graph.place(column.loader, process_of(options, 0, replica));
  graph.place(column.loss, process_of(options, options.partition.size() - 1, replica));
  return column;
}

/// Connects a stage with the next one, or with the loss.
void connect_onwards(Graph& graph, const PipelineOptions& options, const Column& column,
                     std::size_t s) {
  const StageBytes of = stage_bytes(options, s);
  const StageSchedule here = schedule_of(options, s);
  const ActorRef<Stage> stage = column.stages[s];
  const Device device = options.stream.device;
  if (s + 1 < column.stages.size()) {
    const ActorRef<Stage> next = column.stages[s + 1];
    const EdgeSlots slots = slots_between(here, schedule_of(options, s + 1));
    graph.connect(stage, &Stage::output, next, &Stage::input,
                  column.each(slots.outputs, of.output, device));
    graph.connect(next, &Stage::input_gradient, stage, &Stage::output_gradient,
                  column.each(slots.gradients, of.output, device));
    return;
  }
  const EdgeSlots slots = slots_to_loss(here);
  graph.connect(stage, &Stage::output, column.loss, &Loss::logits,
                column.each(slots.outputs, of.output, device));
  graph.connect(column.loss, &Loss::logits_gradient, stage, &Stage::output_gradient,
                column.each(slots.gradients, of.widened, device));
}

void connect_reducers(Graph& graph, const PipelineOptions& options, const Common& common,
                      const Column& column, std::size_t s) {
  for (std::uint32_t b = 0; b < common.buckets[s].size(); ++b) {
    const BucketBytes& bucket = common.buckets[s][b];
    const auto reducer = common.reducers[s][b][column.replica];
    graph.connect(
        column.stages[s], [b](Stage& stage) { return stage.gradient_of(b); }, reducer,
        &Reducer::gradient, column.each(2, bucket.all(), options.stream.device));
    const std::size_t reduced = bucket.weights + options.micro_batches * bucket.statistics;
    graph.connect(reducer, &Reducer::reduced, column.stages[s], &Stage::reduced,
                  {1 + options.staleness, reduced, reduced, options.stream.device});
  }
}

// Messages that come once a step: with two slots, none waits for the last one's release.
const EdgeOptions once_a_step{2, 0};

void connect_update(Graph& graph, const PipelineOptions& options, const Common& common,
                    const Column& column, std::size_t s) {
  const EdgeOptions edge = once_a_step;
  if (options.rate.schedule == LearningRateSchedule::plateau)
    graph.connect(common.monitor, &Monitor::rate_factor, column.stages[s], &Stage::rate_factor,
                  edge);
  if (!common.norm) return;
  if (column.replica == 0) {
    EdgeOptions squares = edge;
    squares.slot_bytes = squares.step_bytes = common.buckets[s].front().squares;
    graph.connect(column.stages[s], &Stage::gradient_squares, *common.norm, &GradientNorm::squares,
                  squares);
  }
  graph.connect(*common.norm, &GradientNorm::norm, column.stages[s], &Stage::gradient_norm, edge);
}

void connect_writer(Graph& graph, const PipelineOptions& options, const Common& common,
                    const Column& column, std::size_t s) {
  // Replicas hold the same state: one of them is enough for a checkpoint.
  if (!common.writer || column.replica != 0) return;
  // A second slot, because a writer that was replaced while it wrote counts as free at once.
  const EdgeOptions edge{2, 0};
  const auto elsewhere = common.shard_writers.find(process_of(options, s, 0));
  if (elsewhere == common.shard_writers.end())
    graph.connect(column.stages[s], &Stage::snapshot, *common.writer, &CheckpointWriter::snapshot,
                  edge);
  else
    graph.connect(column.stages[s], &Stage::snapshot, elsewhere->second, &ShardWriter::snapshot,
                  edge);
}

void add_replica(Graph& graph, const PipelineOptions& options, const Common& common,
                 std::uint32_t replica) {
  const Column column = add_column(graph, options, common, replica);
  const std::size_t samples = micro_batch_samples(options);
  const std::uint32_t fed = loader_slots(options);
  graph.connect(column.loader, &Loader::samples, column.stages.front(), &Stage::input,
                column.each(fed, samples * sample_bytes(options), common.samples_on));
  graph.connect(column.loader, &Loader::targets, column.loss, &Loss::targets,
                column.each(fed, samples * target_bytes(options)));
  for (std::size_t s = 0; s < column.stages.size(); ++s) {
    connect_onwards(graph, options, column, s);
    connect_reducers(graph, options, common, column, s);
    connect_update(graph, options, common, column, s);
    connect_writer(graph, options, common, column, s);
  }
  EdgeOptions scores = column.each(64, sizeof(Score::Numbers));  // what leaves a process
  scores.slot_bytes = score_bytes;
  graph.connect(column.loss, &Loss::score, common.monitor, &Monitor::score, scores);
}

/// Adds the reducers of a bucket of a stage and connects them; returns the reducer of each replica.
std::vector<ActorRef<Reducer>> add_reducers(Graph& graph, const PipelineOptions& options,
                                            std::size_t stage, std::uint32_t bucket,
                                            const std::vector<BucketBytes>& buckets) {
  const std::vector<std::uint32_t> groups = reducer_shares(options, stage);
  const std::string name = buckets.size() == 1 ? fmt::format("reducer/{}", stage)
                                               : fmt::format("reducer/{}.{}", stage, bucket);
  std::vector<ActorRef<Reducer>> reducers, by_replica;
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    reducers.push_back(graph.add<Reducer>(
        groups.size() == 1 ? name : fmt::format("{}/{}", name, g),
        ReducerOptions{options.dtype, options.stream, groups, g, bucket, options.staleness}));
    graph.place(reducers[g],
                process_of(options, stage, static_cast<std::uint32_t>(by_replica.size())));
    by_replica.insert(by_replica.end(), groups[g], reducers[g]);
  }
  const std::size_t chunk = buckets[bucket].weights / groups.size();
  // One slot is enough. With two, a reducer sends the sums of the next step while others still use
  // the last ones.
  const std::uint32_t slots = options.staleness == 0 ? 1 : 2;
  std::uint32_t replica = 0;
  for (std::uint32_t from = 0; from < reducers.size(); replica += groups[from++]) {
    const MicroBatchRange own =
        micro_batch_range(options.micro_batches, replica, options.replicas, groups[from]);
    const std::size_t partial = partial_bytes(options, buckets[bucket], own, groups.size());
    for (std::uint32_t to = 0; to < reducers.size(); ++to) {
      if (from == to) continue;
      graph.connect(reducers[from], [to](Reducer& reducer) { return reducer.partial(to); },
                    reducers[to], &Reducer::partials,
                    {slots, partial, partial, options.stream.device});
      graph.connect(reducers[from], &Reducer::chunk, reducers[to], &Reducer::chunks,
                    {slots, chunk, chunk, options.stream.device});
    }
  }
  return by_replica;
}

MonitorOptions monitor_options(const PipelineOptions& options) {
  return {.timeline = timeline_of(options),
          .stopping = options.stopping,
          .rate = options.rate,
          .loss_scale = loss_scale_options(options),
          .stop_on_nan = options.stop_on_nan,
          .test_count = options.data.dataset.count(Split::test),
          .on_step = options.on_step,
          .on_evaluation_progress = options.on_evaluation_progress,
          .on_evaluation = options.on_evaluation};
}

/// The processes that write stages: those where the first replica of one lives.
std::set<std::uint32_t> writing_processes(const PipelineOptions& options) {
  std::set<std::uint32_t> processes;
  for (std::size_t s = 0; s < options.partition.size(); ++s)
    processes.insert(process_of(options, s, 0));
  return processes;
}

/// Adds the checkpoint writer in process 0, and a shard writer in each other process.
void add_writers(Graph& graph, const PipelineOptions& options, Common& common) {
  for (const std::uint32_t process : writing_processes(options)) {
    CheckpointWriterOptions writer = *options.writer;
    if (writer.options.empty()) writer.options = options_text(options);
    writer.optimizer = options.optimizer.name();
    writer.requested = std::make_shared<RequestedCheckpoints>();  // of this graph alone
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

}  // namespace

Model model_of(const PipelineOptions& options) {
  return options.model.make(options.data.dataset.samples(), options.dtype);
}

Freezes freezes_of(const PipelineOptions& options) {
  return [optimizer = options.optimizer](std::string_view parameter) {
    return optimizer.freezes(parameter);
  };
}

void check_loss(const PipelineOptions& options) {
  check(options.loss);
  check_fits(options.loss, options.data.dataset.samples(), options.model.outputs(),
             options.model.file());
  check_fits(options.loss, options.stopping);
  check_fits(options.loss, options.data.mix);
}

TransformOptions transform_options(const PipelineOptions& options) {
  const PipelineData& data = options.data;
  return {.seed = options.seed,
          .augment = data.augment,
          .color_jitter = data.color_jitter,
          .mean = data.mean,
          .std = data.std,
          .dtype = options.dtype,
          .device = options.stream.device,
          .own = data.transform};
}

bool has_resident_images(const PipelineOptions& options) {
  return options.data.resident && options.stream.device != Device::cpu();
}

Device samples_device(const PipelineOptions& options) {
  const bool copied =
      has_resident_images(options) || model_of(options).blocks.front()->begins_with_convolution();
  return copied ? options.stream.device : Device::cpu();
}

LoaderOptions loader_options(const PipelineOptions& options, std::uint32_t replica) {
  const PipelineData& data = options.data;
  return {.dataset = data.dataset,
          .transform = transform_options(options),
          .sampler = sampler_options(options),
          .replica = replica,
          .timeline = timeline_of(options),
          .workers = data.workers,
          .mix = data.mix,
          .prefetch = data.prefetch};
}

Timeline timeline_of(const PipelineOptions& options) {
  Timeline timeline = timeline_of(sampler_options(options), options.epochs, options.max_steps);
  timeline.evaluates = options.evaluates;
  timeline.first = options.first_step;
  timeline.evaluates_first = options.evaluates_first;
  return timeline;
}

LearningRateOptions learning_rate_options(const PipelineOptions& options) {
  LearningRateOptions rate = options.rate;
  rate.steps_per_epoch = Sampler(sampler_options(options)).batches_per_epoch();
  rate.total_steps = batches_in(sampler_options(options), options.epochs);
  return rate;
}

std::optional<LossScaleOptions> loss_scale_options(const PipelineOptions& options) {
  LossScaleOptions result = options.loss_scale;
  if (result.mode == LossScaling::automatic)
    result.mode = options.stream.products == DType::f16 ? LossScaling::dynamic : LossScaling::none;
  if (result.mode == LossScaling::none) return std::nullopt;
  return result;
}

std::size_t micro_batches_of_a_replica(const PipelineOptions& options) {
  return (options.micro_batches + options.replicas - 1) / options.replicas;
}

StageSchedule schedule_of(const PipelineOptions& options, std::size_t stage) {
  return stage_schedule(options.schedule, stage, options.partition.size(),
                        micro_batches_of_a_replica(options));
}

std::vector<std::size_t> partition_of(const PipelineOptions& options) {
  const std::size_t blocks = model_of(options).blocks.size();
  std::vector<std::size_t> partition = options.partition;
  if (!partition.empty() && partition.back() == SIZE_MAX) {
    const std::size_t others =
        std::accumulate(partition.begin(), std::prev(partition.end()), std::size_t{0});
    partition.back() = blocks - std::min(blocks, others);
  }
  check_partition(partition, blocks);
  return partition;
}

std::vector<BlockRange> blocks_of(const PipelineOptions& options, std::size_t stage) {
  const std::vector<std::size_t> partition = partition_of(options);
  const auto begin = partition.begin();
  const auto first =
      std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(stage), std::size_t{0});
  return {{first, first + partition[stage]}};
}

std::uint32_t process_of(const PipelineOptions& options, std::size_t stage, std::uint32_t replica) {
  const std::size_t cells = options.partition.size() * options.replicas;
  const std::size_t cell = stage * options.replicas + replica;
  return static_cast<std::uint32_t>(cell * options.processes / cells);
}

namespace {

/// Throws for what would fail only after a part of the run.
void check(const PipelineOptions& options) {
  options.optimizer.check();
  options.optimizer.check_groups(parameter_names(model_of(options)));
  (void)partition_of(options);  // checks it
  check_loss(options);
  check(options.loss_scale);
  if (!options.initial.empty() && options.initial.size() != options.partition.size())
    throw Error(
        ErrorCode::bad_options,
        fmt::format("there are states to begin with for {}, but the pipeline has {}",
                    counted(std::ssize(options.initial), "stage"), std::ssize(options.partition)),
        "load them by states_from or resume_from after the partition is set");
  if (options.staleness > 0 && loss_scale_options(options))
    throw Error(ErrorCode::bad_options,
                fmt::format("`staleness` is {}, but losses are scaled: a sum would be applied in a "
                            "step with another scale than its own",
                            options.staleness),
                "set `LossScaleOptions::mode` to none, or `staleness` to 0");
  if (options.staleness > 0 && options.cuda_graphs)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`cuda_graphs` is true and `staleness` {}: CUDA graphs read the "
                    "weights at one address, but passes of several steps need several versions",
                    options.staleness),
        "set `cuda_graphs` to false, or `staleness` to 0");
  const Dataset& data = options.data.dataset;
  if (options.evaluates && data.count(Split::test) <= 0)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`evaluates` is true, but {} has no test samples", data.name()),
        "give it test samples, hold out some with `Dataset::test_fraction`, or set `evaluates` to "
        "false");
  if (options.rate.schedule == LearningRateSchedule::plateau && !options.evaluates)
    throw Error(
        ErrorCode::bad_options,
        "the schedule is plateau, but `evaluates` is false: only evaluations show a plateau",
        "set `evaluates` to true");
  if (options.stopping.is_set() && !options.evaluates)
    throw Error(ErrorCode::bad_options,
                "a `target_accuracy` or `patience` is set, but `evaluates` is false",
                "set `evaluates` to true");
  if (has_resident_images(options))
    check_resident(transform_options(options), options.data.mix, data);
  const std::size_t cells = options.partition.size() * options.replicas;
  if (options.processes > cells)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("{} processes for {} × {}", options.processes,
                    counted(std::ssize(options.partition), "stage"),
                    counted(options.replicas, "replica")),
        fmt::format("start {} processes, or make stages × replicas {}", cells, options.processes));
}

}  // namespace

Graph build_pipeline(const PipelineOptions& options) {
  check(options);
  Graph graph;
  Common common{.first_trained = first_trained_block(model_of(options), freezes_of(options))};
  for (std::size_t s = 0; s < options.partition.size(); ++s) {
    common.buckets.push_back(bucket_bytes(options, s));
    common.reducers.emplace_back();
    for (std::uint32_t b = 0; b < common.buckets[s].size(); ++b)
      common.reducers[s].push_back(add_reducers(graph, options, s, b, common.buckets[s]));
  }
  common.monitor = graph.add<Monitor>("monitor", monitor_options(options));
  const bool scales = loss_scale_options(options).has_value();
  if (scales || options.optimizer.clip_norm() > 0)
    common.norm = graph.add<GradientNorm>(
        "gradient_norm", GradientNormOptions{static_cast<std::uint32_t>(options.partition.size())});
  if (scales)
    graph.connect(*common.norm, &GradientNorm::norm, common.monitor, &Monitor::gradient_norm,
                  once_a_step);
  if (options.writer) add_writers(graph, options, common);
  if (has_resident_images(options)) common.images = std::make_shared<ResidentImages>();
  common.samples_on = samples_device(options);
  for (std::uint32_t r = 0; r < options.replicas; ++r) add_replica(graph, options, common, r);
  return graph;
}

}  // namespace troupe

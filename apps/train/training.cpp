#include "apps/train/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "actors/checkpoint_files.h"
#include "actors/partial_weights.h"
#include "actors/precision.h"
#include "actors/starting_state.h"
#include "actors/weights_file.h"
#include "apps/options/load_options.h"
#include "apps/options/option_changes.h"
#include "apps/options/options.h"
#include "apps/options/options_table.h"
#include "apps/output/report.h"
#include "apps/output/slow_notice.h"
#include "ops/backend.h"
#include "ops/graph/read_graph.h"
#include "ops/nn/network.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/torch_file.h"
#include "runtime/options/tree.h"
#include "runtime/print.h"
#include "runtime/tensor/finite.h"
#include "runtime/tensor/out_of_memory.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

std::vector<std::size_t> choose_partition(const Options& options, PipelineOptions& pipeline,
                                          const StartingPoint& start) {
  const std::size_t blocks = model_of(pipeline).blocks.size();
  if (const auto& asked = options.pipeline.partition; !asked.empty()) {
    check_partition(asked, blocks);
    return asked;
  }
  const auto stages = static_cast<std::size_t>(options.stages);
  if (stages == 1) return {blocks};
  const bool same_blocks =
      std::accumulate(start.partition.begin(), start.partition.end(), std::size_t{0}) == blocks;
  if (start.partition.size() == stages && same_blocks) return start.partition;
  if (pipeline.block_costs.empty()) measure(pipeline);
  std::vector<double> costs;
  for (const BlockCosts& block : pipeline.block_costs)
    costs.push_back(std::chrono::duration<double>(block.forward + block.backward).count());
  return balanced_partition(costs, stages);
}

/// The error of a damaged file, with the option that names the file.
Error with_option(const Error& error, std::string_view key) {
  if (error.code() != ErrorCode::bad_file) return error;
  return {error.code(), fmt::format("{}: {}", key, error.message()), error.remedy()};
}

/// Empty if the data set has no such option, or if it is not set.
std::filesystem::path data_path(const Options& options) {
  const std::string yaml = option_text(options, "data.path");
  return yaml.empty() ? yaml : parse_yaml(yaml, "data.path").scalar;
}

Dataset opened_dataset(const Options& options) {
  const SlowNotice notice(fmt::format("opening the data set {}", options.dataset.name));
  try {
    return open_dataset(options);
  } catch (const Error& error) {
    const std::filesystem::path path = data_path(options);
    std::error_code ignored;
    if (error.code() == ErrorCode::io && !path.empty() && !std::filesystem::exists(path, ignored))
      throw Error(ErrorCode::bad_options,
                  fmt::format("data.path is {}, which does not exist", path.string()),
                  error.remedy());
    throw with_option(error, "data.path");
  }
}

WeightsFile opened_weights(const Options& options, const StartingPoint& start) {
  const auto path = start.weights.empty() ? initial_weights(options) : start.weights;
  try {
    return open_weights(path);
  } catch (const Error& error) {
    throw with_option(error, "model.weights");
  }
}

StateSpec whole_spec(const PipelineOptions& pipeline) {
  Model model = model_of(pipeline);
  const std::size_t blocks = model.blocks.size();
  return Network(std::move(model), 0, blocks, pipeline.dtype, pipeline.stream).spec();
}

/// What training changes: parameters that are not frozen, and running statistics. Others, such as a
/// mask, may have numbers that are not finite.
std::vector<std::string> changing_tensors(const PipelineOptions& pipeline) {
  const StateSpec spec = whole_spec(pipeline);
  const auto is_frozen = [freezes = freezes_of(pipeline)](const ParameterSpec& parameter) {
    return parameter.frozen || freezes(parameter.name);
  };
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters())
    if (!is_frozen(parameter)) names.push_back(parameter.name);
  for (const AliasSpec& alias : spec.aliases())
    if (!is_frozen(spec.parameters()[static_cast<std::size_t>(alias.of.value)]))
      names.push_back(alias.name);
  for (const BufferSpec& buffer : spec.buffers()) names.push_back(buffer.name);
  return names;
}

/// The same weights. Reading a tensor of changing_tensors with numbers that are not finite throws.
TensorSource finite(TensorSource source, const std::string& origin,
                    const PipelineOptions& pipeline) {
  source.read = [origin, changing = changing_tensors(pipeline),
                 read = std::move(source.read)](const std::string& name) {
    Tensor tensor = read(name);
    const bool changes = std::ranges::any_of(changing, [&](const std::string& known) {
      return name == known || name.ends_with("." + known);  // behind a prefix, such as "module."
    });
    if (!changes) return tensor;
    if (const auto found = first_not_finite(tensor))
      throw Error(
          ErrorCode::bad_file,
          fmt::format("model.weights: {} of {} has {} at number {} of {}", printable(name), origin,
                      not_finite_text(tensor, *found), *found + 1, tensor.element_count()),
          "give weights of a run that has not diverged; with train.stop_on_nan false they "
          "are taken as they are");
    return tensor;
  };
  return source;
}

}  // namespace

std::filesystem::path initial_weights(const Options& options) {
  if (!std::filesystem::exists(torch_path(options.weights).path))
    throw Error(ErrorCode::bad_options,
                fmt::format("{}model.weights is {}, which does not exist", options.weights_position,
                            options.weights.string()),
                "check the path");
  try {
    return find_weights(options.weights);
  } catch (const Error& error) {
    throw with_option(error, "model.weights");
  }
}

SampleCounts sample_counts(const DatasetSummary& data) { return {data.train, data.test}; }

SampleCounts sample_counts(const std::map<std::string, std::string>& run) {
  const auto number = [&](const char* key) {
    const auto found = run.find(key);
    std::int64_t value = 0;
    if (found != run.end())
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
    return value;
  };
  return {number("training_samples"), number("test_samples")};
}

StartingPoint read_starting_point(const std::filesystem::path& path) {
  const CheckpointChoice choice = newest_complete_checkpoint(path);
  for (const auto& reason : choice.skipped) print_warning("skipped {}", reason);
  const Checkpoint checkpoint = open_complete_checkpoint(choice.folder);
  const Manifest& manifest = checkpoint.manifest();
  if (manifest.step > std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has step {}, which exceeds the largest step number",
                            choice.folder.string(), manifest.step),
                "start a new run from its weights with -r model.weights=" + choice.folder.string());
  StartingPoint start{.checkpoint = choice.folder,
                      .steps = static_cast<std::uint32_t>(manifest.step),
                      .options = manifest.options};
  if (const auto processor = manifest.run.find("processor"); processor != manifest.run.end())
    start.processor = processor->second;
  start.samples = sample_counts(manifest.run);
  auto partition = manifest.run.find("partition");
  if (partition == manifest.run.end()) partition = manifest.run.find("cut");  // its former name
  if (partition != manifest.run.end()) {
    std::istringstream numbers(partition->second);
    for (std::size_t blocks = 0; numbers >> blocks;) start.partition.push_back(blocks);
  }
  return start;
}

void set_device(const Options& options, Stream& stream, std::uint32_t processes) {
  stream.device = choose_device(options.device, processes);
  try {
    check_products(stream);
  } catch (const Error& error) {
    if (options.device != DeviceChoice::automatic) throw;
    if (processes > 1)
      throw Error(error.code(), error.message() + "; several processes compute on the CPU",
                  error.remedy() + " in one process");
    const Result<Device> gpu = find_gpu();
    if (gpu) throw;
    throw Error(error.code(), fmt::format("{}, and {}", error.message(), gpu.error().message()),
                error.remedy());
  }
}

PipelineOptions pipeline_options(const Options& options, const StartingPoint& start,
                                 const ProcessOptions& here) {
  PipelineOptions pipeline = options.pipeline;
  set_device(options, pipeline.stream, here.processes);
  pipeline.model = options.model.chosen();
  pipeline.optimizer = optimizer_of(options);
  if (options.aggregation == Aggregation::asynchronous)
    pipeline.staleness = static_cast<std::uint32_t>(options.staleness);
  pipeline.processes = here.processes;
  pipeline.stream.threads = intra_op_threads(options, here.processes);
  pipeline.data.dataset = opened_dataset(options);
  pipeline.data.prefetch = std::max(4, 2 * pipeline.data.workers);
  pipeline.first_step = start.steps;
  check(learning_rate_options(pipeline));
  pipeline.partition = choose_partition(options, pipeline, start);
  if (!start.checkpoint.empty()) {
    try {
      resume_from(pipeline, start.checkpoint, here.process);
    } catch (const Error& error) {
      throw of_another_model(error, start.checkpoint, start.options, options);
    }
  } else if (!options.weights.empty()) {
    WeightsFile weights = opened_weights(options, start);
    if (pipeline.stop_on_nan)
      weights.tensors = finite(std::move(weights.tensors), weights.name(), pipeline);
    try {
      pipeline.initial =
          states_from(pipeline, here.process,
                      options.weights_strict
                          ? weights.tensors
                          : partial_weights(pipeline, weights.tensors, weights.name()).tensors);
    } catch (const Error& error) {
      throw of_another_model(error, weights.path, weights.options, options);
    }
  }
  return pipeline;
}

namespace {

std::vector<BlockCosts> costs_with(const PipelineOptions& pipeline, std::int64_t samples,
                                   int repetitions) {
  try {
    return measure_blocks(pipeline.model, pipeline.data.dataset.samples(), pipeline.dtype,
                          pipeline.stream, samples, repetitions, freezes_of(pipeline));
  } catch (const OutOfMemory& error) {  // there is no actor yet that it could name
    throw OutOfMemory(
        fmt::format("measuring the blocks of {} with {}: {}", model_title(pipeline.model),
                    counted(samples, "sample"), error.message()),
        error.remedy());
  }
}

/// The samples of a micro-batch, or as many as some seconds suffice for.
std::int64_t measured_samples(const PipelineOptions& pipeline, std::int64_t samples) {
  constexpr std::int64_t few = 32, usual = 128;
  constexpr std::chrono::duration<double> enough{3};  // of each of at least three repetitions
  if (samples <= usual) return samples;
  std::chrono::duration<double> time{};
  for (const BlockCosts& costs : costs_with(pipeline, few, 2))
    time += costs.forward + costs.backward;
  const double most = few * std::max(enough / time, 1.0);
  return most < static_cast<double>(samples) ? static_cast<std::int64_t>(most) : samples;
}

}  // namespace

void measure(PipelineOptions& pipeline) {
  // The least of a few repetitions is the best estimate on a machine that others use as well.
  constexpr int repetitions = 8;
  const std::int64_t samples =
      (pipeline.batch_size + pipeline.micro_batches - 1) / pipeline.micro_batches;
  const SlowNotice notice(fmt::format("measuring the blocks of {} for micro-batches of {}",
                                      model_title(pipeline.model), counted(samples, "sample")));
  const std::int64_t measured = measured_samples(pipeline, samples);
  pipeline.block_costs = costs_with(pipeline, measured, repetitions);
  if (measured == samples) return;
  for (BlockCosts& costs : pipeline.block_costs) {
    scale_samples(costs, samples, measured);
    // Of many samples, linear layers of the CPU keep their weights in another order, too.
    if (pipeline.stream.device == Device::cpu()) costs.kept_bytes += costs.state_bytes;
  }
}

int available_cores() {
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  // One of several processes is bound to its share when it joins them.
  if (world && world->size == 1) return core_share(*world, environment).threads;
  return threads_for(usable_cpus().size(), cpu_quota(), 1);
}

void check_model_file(const ModelSource& model) {
  if (model.file().empty()) return;
  const SlowNotice notice(fmt::format("reading {}", model.file().string()));
  try {
    const TensorSource weights = graph::read_graph(model.file()).weights;
    for (const TensorInfo& tensor : weights.tensors) (void)weights.read(tensor.name);
  } catch (const Error& error) {
    throw with_option(error, "model.file");
  }
}

namespace {

/// Throws unless the data set has the samples of the run, as far as their numbers tell. With
/// others, the order of the epoch is another one, and other samples are held out. data.limit may
/// hide a change.
void check_same_samples(const Options& options, const Options& before, const StartingPoint& start) {
  if (!options.samples) return;
  const std::string share = option_text(options, "data.test_fraction");
  const bool holds_out = !share.empty() && std::stod(share) > 0;
  const SampleCounts &there = start.samples, here = sample_counts(options.samples.value());
  const bool same_test = !holds_out || there.test == here.test ||
                         before.selection.test_limit != options.selection.test_limit;
  if (there.train == 0 || (there.train == here.train && same_test)) return;
  throw Error(
      ErrorCode::bad_options,
      fmt::format("{} has {} training and {} test samples, but {} and {} when {} was written",
                  options.dataset.name, here.train, here.test, there.train, there.test,
                  start.checkpoint.string()),
      fmt::format("resume with the same samples, or start a new run from its weights with "
                  "-r model.weights={}",
                  start.checkpoint.string()));
}

}  // namespace

void check_continues(const Options& options, const StartingPoint& start) {
  if (start.options.empty()) return;
  check_graph_of_run(start.options, start.checkpoint, options);
  const std::string source = (start.checkpoint / "manifest.json").string();
  const Options before = parse_past_options(start.options, source, options);
  const auto require_same = [&](const std::string& key, const auto& there, const auto& here) {
    if (there == here) return;
    throw Error(ErrorCode::bad_options,
                fmt::format("{} is {}, but {} was written with {}", key, here,
                            start.checkpoint.string(), there),
                fmt::format("resume with -r {}={}, or start a new run from its weights with -r "
                            "model.weights={}",
                            key, there, start.checkpoint.string()));
  };
  const PipelineOptions &there = before.pipeline, &here = options.pipeline;
  require_same("seed", there.seed, here.seed);
  require_same("data.name", before.dataset.name, options.dataset.name);
  const auto settings = dataset_settings(options);
  for (const auto& [key, setting] : dataset_settings(before))
    require_same(key, setting, settings.at(key));
  require_same("data.limit", before.selection.limit, options.selection.limit);
  require_same("data.shuffle", there.data.shuffle, here.data.shuffle);
  require_same("data.drop_last", there.data.drop_last, here.data.drop_last);
  require_same("train.batch_size", there.batch_size, here.batch_size);
  require_same("train.optimizer", before.optimizer.name, options.optimizer.name);
  check_same_samples(options, before, start);
}

bool has_batch_norms(const PipelineOptions& pipeline) {
  return !whole_spec(pipeline).buffers().empty();
}

WorkLimits work_limits(const Options& options) {
  return {.pipeline = options.stages,
          .data = options.pipeline.replicas,
          .blocks = static_cast<std::int64_t>(
              block_count(options).value_or(static_cast<std::size_t>(options.stages))),
          .micro_batches = options.pipeline.micro_batches,
          .batch_size = options.pipeline.batch_size};
}

int cores_of_process() {
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  const int cores = available_cores();
  if (!world || world->local_size < 2) return cores;
  return std::min(cores, std::max(1, node_cores(*world, environment) / world->local_size));
}

int actor_threads(const Options& options, std::uint32_t processes, int cores) {
  if (options.run.threads > 0) return options.run.threads;
  const std::int64_t all = options.stages * options.pipeline.replicas;
  const auto wanted = static_cast<int>((all + processes - 1) / processes);
  return std::clamp(cores / std::max(1, options.intra_op_threads), 1, wanted);
}

int intra_op_threads(const Options& options, std::uint32_t processes, int cores) {
  if (options.intra_op_threads > 0) return options.intra_op_threads;
  const int share = std::max(1, cores / actor_threads(options, processes, cores));
  const auto limit = openmp_threads(Environment::of_process().get("OMP_NUM_THREADS").value_or(""));
  return limit ? std::min(share, *limit) : share;
}

int idle_cores(const Options& options, std::uint32_t processes) {
  const int actors = actor_threads(options, processes);
  const int idle = cores_of_process() - actors * intra_op_threads(options, processes);
  const bool by_hand = options.intra_op_threads > 0 || options.run.threads > 0;
  return by_hand && idle >= actors ? idle : 0;
}

std::string options_for_restart(const Options& options, const std::vector<std::size_t>& partition) {
  std::string text = resolved_yaml(options);
  constexpr std::string_view open = "  partition: auto\n";
  if (const auto at = text.find(open); at != std::string::npos)
    text.replace(
        at, open.size(),
        fmt::format("  partition: auto  # of this run: [{}]\n", fmt::join(partition, ", ")));
  return text;
}

std::string_view throughput_unit(const SampleSpec& samples) {
  return samples.dtype == DType::u8 && samples.shape.rank() == 3 ? images_unit : samples_unit;
}

namespace {

/// "4 features", "1×28×28"
std::string sample_text(const Shape& shape) {
  if (shape.rank() == 1) return counted(shape[0], "feature");
  return fmt::format("{}", fmt::join(shape.dims(), "×"));
}

}  // namespace

std::string data_heading(const Dataset& data) {
  const SampleSpec& samples = data.samples();
  const TargetNames names = data.target_names();
  const bool classes = samples.target_dtype == DType::i64 && samples.target_shape.rank() == 0;
  std::vector<std::string> numbered;
  for (const std::string& name : names.classes)
    numbered.push_back(fmt::format("{} {}", numbered.size(), printable(name, 40)));
  const std::string kinds = classes ? counted(samples.classes, "class")
                                    : counted(samples.target_shape.element_count(), "number");
  std::string targets = numbered.empty() ? kinds : fmt::format("{}: {}", kinds, listed(numbered));
  std::vector<std::string> columns;
  for (const std::string& name : names.columns) columns.push_back(printable(name, 40));
  if (!columns.empty())
    targets = fmt::format("{} {}: {}", columns.size() == 1 ? "target" : "targets", listed(columns),
                          !classes           ? "numbers"
                          : numbered.empty() ? kinds
                                             : listed(numbered));
  else if (!classes)
    targets = "targets of " + kinds;
  return fmt::format("{}: {} training and {} test samples, {}, {}", data.name(),
                     data.count(Split::train), data.count(Split::test), sample_text(samples.shape),
                     targets);
}

std::string device_heading(Device device) {
  if (device == Device::cpu()) return ", on the CPU";
  return fmt::format(", on {} ({})", to_string(device), backend(device).fingerprint());
}

bool has_tf32(Device device) { return backend(device).has_tf32(); }

std::string partition_text(const std::vector<std::size_t>& partition) {
  if (partition.size() == 1) return counted(static_cast<std::int64_t>(partition[0]), "block");
  return fmt::format("{} blocks", fmt::join(partition, " + "));
}

namespace {

/// What to try if a GPU computes without tensor cores.
std::string precision_hint(const PipelineOptions& pipeline) {
  const Stream& stream = pipeline.stream;
  const bool in_f32 = Precision{pipeline.dtype, stream.products} == Precision{};
  const bool may_round = has_tf32(stream.device);
  const auto tf32 = Environment::of_process().get("NVIDIA_TF32_OVERRIDE");
  const bool rounds = may_round && (stream.matmul_tf32 || stream.conv_tf32 || tf32 == "1");
  if (stream.device == Device::cpu() || !in_f32 || rounds) return {};
  std::vector<std::string_view> choices;
  if (may_round && tf32 != "0")
    choices.emplace_back("-r conv_precision=tf32 -r matmul_precision=tf32");
  const auto multiplies = backend(stream.device).multiplies;
  if (multiplies(DType::bf16))
    choices.emplace_back("-r precision=bf16-mixed");
  else if (multiplies(DType::f16))
    choices.emplace_back("-r precision=16-mixed");
  if (choices.empty()) return {};
  return fmt::format("\nf32 uses no tensor cores; for speed, try {}", fmt::join(choices, ", or "));
}

/// What to try if micro-batches are too small to keep a GPU busy.
std::string micro_batch_hint(const PipelineOptions& pipeline) {
  constexpr std::int64_t small = 64;
  const auto samples = static_cast<std::int64_t>(pipeline.batch_size / pipeline.micro_batches);
  if (pipeline.stream.device == Device::cpu() || samples >= small ||
      pipeline.micro_batches <= pipeline.replicas)
    return {};
  return fmt::format(
      "\nmicro-batches of {} are small for a GPU; for speed, try {}-r train.micro_batches={}",
      counted(samples, "sample"), pipeline.partition.size() > 1 ? "-r parallel.pipeline=1 " : "",
      pipeline.replicas);
}

/// ", bf16-mixed", ", conv_precision tf32": what differs from f32, of the switches in use.
std::string precision_heading(const PipelineOptions& pipeline) {
  const Stream& stream = pipeline.stream;
  const Precision precision{pipeline.dtype, stream.products};
  const bool may_round = has_tf32(stream.device);
  const bool rounds_convolutions = stream.conv_tf32 && stream.products == DType::f32;
  return fmt::format("{}{}{}",
                     precision == Precision{} ? "" : fmt::format(", {}", name_of(precision)),
                     may_round && stream.matmul_tf32 ? ", matmul_precision tf32" : "",
                     may_round && rounds_convolutions ? ", conv_precision tf32" : "");
}

/// "2 actor threads, 4 threads per kernel"; the kernels of a GPU have none of the CPU.
std::string threads_heading(const Options& options, const PipelineOptions& pipeline) {
  const std::uint32_t processes = pipeline.processes;
  return fmt::format(
      "{}{}{}", counted(actor_threads(options, processes), "actor thread"),
      processes > 1 ? " per process" : "",
      pipeline.stream.device == Device::cpu()
          ? fmt::format(", {} per kernel", counted(intra_op_threads(options, processes), "thread"))
          : "");
}

/// "sgd, lr 0.05 (one_cycle)".
std::string update_heading(const Options& options, const PipelineOptions& pipeline) {
  return fmt::format("{}, lr {:.9g} ({})", pipeline.optimizer.name(), pipeline.rate.lr,
                     option_text(options, "train.schedule"));
}

}  // namespace

std::string run_heading(const Options& options, const PipelineOptions& pipeline) {
  const auto stages = static_cast<std::int64_t>(pipeline.partition.size());
  const auto replicas = static_cast<std::int64_t>(pipeline.replicas);
  const std::optional<LossScaleOptions> scale = loss_scale_options(pipeline);
  const bool has_graphs = pipeline.cuda_graphs && pipeline.stream.device != Device::cpu();
  const bool may_vary = !pipeline.stream.deterministic && pipeline.stream.device != Device::cpu();
  const std::string on_gpu = fmt::format("{}{}{}", has_graphs ? ", CUDA graphs" : "",
                                         has_resident_images(pipeline) ? ", resident images" : "",
                                         may_vary ? ", not deterministic" : "");
  return fmt::format(
      "{}: {} in {}{}, {} schedule{}{}\n"
      "batches of {} in {}, {}\n"
      "{}{}{}{}{}",
      model_title(pipeline.model), partition_text(pipeline.partition), counted(stages, "stage"),
      replicas == 1 ? "" : " × " + counted(replicas, "replica"), name_of(pipeline.schedule),
      precision_heading(pipeline), device_heading(pipeline.stream.device) + on_gpu,
      pipeline.batch_size, counted(pipeline.micro_batches, "micro-batch"),
      update_heading(options, pipeline), threads_heading(options, pipeline),
      pipeline.staleness == 0
          ? ""
          : fmt::format("\nasynchronous aggregation: gradients are applied {} later",
                        counted(pipeline.staleness, "step")),
      !scale ? ""
      : scale->mode == LossScaling::fixed
          ? fmt::format("\nstatic loss scaling by {:.9g}", scale->init_scale)
          : "\ndynamic loss scaling",
      options.ema_decay > 0
          ? fmt::format("\nevaluations, eval and export use the moving average of the weights "
                        "(decay {})",
                        options.ema_decay)
          : "",
      precision_hint(pipeline) + micro_batch_hint(pipeline));
}

RunOptions run_options(const Options& options, const PipelineOptions& pipeline) {
  const Timeline timeline = timeline_of(pipeline);
  RunOptions run = options.run;
  run.threads = actor_threads(options, pipeline.processes);
  run.steps.first = timeline.first;
  run.steps.count = timeline.steps;
  run.steps.snapshot_at_end = true;
  const std::uint64_t by_epochs =
      std::uint64_t{options.checkpoint_every_epochs} * timeline.steps_per_epoch;
  run.steps.snapshot_every = {options.checkpoint_every_steps};
  if (const double minutes = options.checkpoint_every_minutes; minutes > 0)  // 0 ms would be none
    run.steps.snapshot_after =
        std::chrono::milliseconds(std::max(1LL, std::llround(minutes * 60'000)));
  if (by_epochs < timeline.steps) {
    const auto period = static_cast<std::uint32_t>(by_epochs);
    if (options.best_checkpoint_kept)  // by the evaluations that follow
      run.steps.exact_snapshot_every = period;
    else
      run.steps.snapshot_every.push_back(period);
  }
  return run;
}

Result<std::filesystem::path> write_training_checkpoint(
    const std::filesystem::path& folder, const Options& options, const Timeline& timeline,
    std::uint32_t step, const std::vector<Snapshot>& snapshots,
    const std::vector<ShardInfo>& elsewhere, const PipelineOptions& pipeline,
    std::optional<std::int64_t> best) {
  Manifest manifest;
  manifest.step = step;
  manifest.options = resolved_yaml(options);
  manifest.position = nlohmann::json{{"step", step},
                                     {"steps", timeline.steps},
                                     {"epoch", step / timeline.steps_per_epoch},
                                     {"epochs", options.pipeline.epochs},
                                     {"step_of_epoch", step % timeline.steps_per_epoch},
                                     {"steps_per_epoch", timeline.steps_per_epoch},
                                     {"seed", options.pipeline.seed}}
                          .dump();
  manifest.run["optimizer"] = options.optimizer.name;
  if (options.samples) {
    const SampleCounts counts = sample_counts(options.samples.value());
    manifest.run["training_samples"] = std::to_string(counts.train);
    manifest.run["test_samples"] = std::to_string(counts.test);
  }
  manifest.run["processor"] = backend(pipeline.stream.device).fingerprint();
  manifest.run["partition"] = fmt::format("{}", fmt::join(pipeline.partition, " "));
  return write_snapshots(folder, std::move(manifest), snapshots,
                         {.newest = options.checkpoints_kept, .also = best}, elsewhere);
}

}  // namespace troupe

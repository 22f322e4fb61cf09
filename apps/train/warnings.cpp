#include "apps/train/warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "actors/partial_weights.h"
#include "actors/weights_file.h"
#include "apps/allocated_gpus.h"
#include "apps/error_wording.h"
#include "apps/options/option_changes.h"
#include "apps/options/options_table.h"
#include "ops/backend.h"
#include "ops/gpu_library.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

constexpr std::int64_t fewest_samples_of_a_norm = 8;  // fewer give noisy averages

/// Sentences for groups that have no effect, because all of their parameters are frozen.
std::vector<std::string> frozen_groups(const Optimizer& optimizer,
                                       const std::vector<std::string>& parameters) {
  std::vector<std::string> sentences;
  for (const ParameterGroup& group : optimizer.groups()) {
    const Optimizer alone = optimizer.with_groups({group});
    const auto trains = [&](const std::string& parameter) {
      return alone.group_of(parameter) != nullptr && !optimizer.freezes(parameter);
    };
    if (group.lr != 0.0 && std::ranges::none_of(parameters, trains))
      sentences.push_back(
          fmt::format("the group [{}] of train.groups has no effect: all of its parameters are "
                      "frozen",
                      fmt::join(group.parameters, ", ")));
  }
  return sentences;
}

/// A sentence for the outputs of a model's file that are no class of the data set.
std::vector<std::string> surplus_outputs(const PipelineOptions& pipeline) {
  const std::int64_t classes = pipeline.data.dataset.samples().classes;
  const std::filesystem::path file = pipeline.model.file();
  const std::int64_t outputs = pipeline.model.outputs().value_or(0);
  if (file.empty() || pipeline.loss.kind != LossKind::cross_entropy || outputs <= classes)
    return {};
  return {fmt::format("{} has {}, but the data set has {}", file.string(),
                      counted(outputs, "output"), counted(classes, "class"))};
}

/// Sentences for batches of which a batch norm sees few samples.
std::vector<std::string> small_norms(const PipelineOptions& pipeline) {
  const std::int64_t size = pipeline.batch_size, parts = pipeline.micro_batches,
                     replicas = pipeline.replicas, few = size / parts;
  const bool all = few >= fewest_samples_of_a_norm || (few > 1 && parts == 1);
  if (all || !has_batch_norms(pipeline)) return {};
  const std::string averages =
      few == 1 ? "batch norm averages over a single sample"
               : fmt::format(
                     "batch norm averages over {} samples (train.batch_size {} / "
                     "train.micro_batches {})",
                     few, size, parts);
  if (parts > replicas)
    return {fmt::format("{}; with train.micro_batches={} over {}, as in PyTorch{}", averages,
                        replicas, size / replicas, replicas > 1 ? "'s DDP" : "")};
  return {
      fmt::format("{}{}: raise train.batch_size", averages,
                  replicas > 1 ? ", the share of a replica, as in DDP without SyncBatchNorm" : "")};
}

/// Sentences for numbers of steps or evaluations that the run does not have.
std::vector<std::string> missing_steps(const PipelineOptions& pipeline) {
  std::vector<std::string> sentences;
  const Timeline timeline = timeline_of(pipeline);
  const std::uint32_t steps = timeline.steps;
  if (pipeline.max_steps > steps)
    sentences.push_back(fmt::format(
        "train.steps is {}, but train.epochs {} makes {}; for more, raise train.epochs to {:.0f}",
        pipeline.max_steps, pipeline.epochs, counted(steps, "step"),
        std::ceil(static_cast<double>(pipeline.max_steps) / timeline.steps_per_epoch)));
  // The first evaluation has none before it to improve on, and the last one has no step after it.
  const EarlyStopping& stopping = pipeline.stopping;
  const std::int64_t needed = stopping.patience + (stopping.target_accuracy > 0 ? 0 : 2);
  const std::int64_t evaluations =
      (std::int64_t{steps} + timeline.steps_per_epoch - 1) / timeline.steps_per_epoch;
  if (stopping.patience > 0 && needed > evaluations)
    sentences.push_back(
        fmt::format("train.patience is {}, but the run has {}: it cannot stop early",
                    stopping.patience, counted(evaluations, "evaluation")));
  if (pipeline.staleness > 0 && pipeline.staleness >= steps)
    sentences.push_back(
        fmt::format("parallel.staleness is {} and the run has {}: no gradient will be applied",
                    pipeline.staleness, counted(steps, "step")));
  return sentences;
}

/// Batches and micro-batches that differ in size, and samples that are left out.
std::vector<std::string> uneven_batches(const PipelineOptions& pipeline) {
  std::vector<std::string> sentences;
  const std::int64_t size = pipeline.batch_size, parts = pipeline.micro_batches;
  if (size % parts != 0)
    sentences.push_back(
        fmt::format("train.batch_size {} in {} micro-batches: {} samples in some, {} in others; "
                    "train.batch_size={} would give each the same number",
                    size, parts, size / parts + 1, size / parts, (size / parts + 1) * parts));
  const std::int64_t samples = pipeline.data.dataset.count(Split::train), rest = samples % size;
  if (pipeline.data.drop_last && 100 * rest >= samples)
    sentences.push_back(
        fmt::format("each epoch drops {} of {} training samples, which do not fill a batch; "
                    "data.drop_last=false keeps them",
                    rest, samples));
  if (!pipeline.data.drop_last && rest != 0) {
    const bool has_single = rest / parts <= 1 && has_batch_norms(pipeline);
    sentences.push_back(fmt::format(
        "the last batch of an epoch has {} of {} samples{}; data.drop_last=true drops it", rest,
        size,
        has_single
            ? ", where batch norm averages over a single sample, or fails if this sample has "
              "one value per channel"
            : ""));
  }
  return sentences;
}

/// A sentence for each option that has no effect on the CPU.
std::vector<std::string> without_effect_on_cpu(const Options& options,
                                               const PipelineOptions& pipeline) {
  std::vector<std::string> sentences;
  const auto has_no_effect = [&](std::string_view option) {
    std::string why;
    if (options.device == DeviceChoice::automatic && pipeline.processes == 1)
      if (const auto gpu = find_gpu(); !gpu) why = fmt::format(" ({})", gpu.error().message());
    sentences.push_back(fmt::format("{} has no effect on the CPU{}", option, why));
  };
  if (pipeline.data.resident && !has_resident_images(pipeline)) has_no_effect("data.resident");
  if (pipeline.stream.conv_tf32 && pipeline.stream.products == DType::f32)
    has_no_effect("conv_precision tf32");
  if (pipeline.stream.matmul_tf32) has_no_effect("matmul_precision tf32");
  if (pipeline.cuda_graphs) has_no_effect("cuda_graphs");
  if (!pipeline.stream.deterministic) has_no_effect("deterministic false");
  return sentences;
}

/// The same on a GPU.
std::vector<std::string> without_effect_on_gpu(const Options& options,
                                               const PipelineOptions& pipeline) {
  std::vector<std::string> sentences;
  const Stream& stream = pipeline.stream;
  if (const std::string algorithm = option_text(options, "convolution");
      !algorithm.empty() && algorithm != "auto")
    sentences.push_back(fmt::format("convolution {} has no effect on a GPU", algorithm));
  if (options.intra_op_threads > 0)
    sentences.emplace_back("parallel.intra_op_threads has no effect on the kernels of a GPU");
  if (has_tf32(stream.device)) return sentences;
  const std::string lacks = fmt::format("{} has no TF32", to_string(stream.device));
  if (stream.conv_tf32 && stream.products == DType::f32)
    sentences.push_back("conv_precision tf32 has no effect: " + lacks);
  if (stream.matmul_tf32) sentences.push_back("matmul_precision tf32 has no effect: " + lacks);
  return sentences;
}

/// What has no effect on the device, and why the CPU computes in place of a GPU.
std::vector<std::string> device_warnings(const Options& options, const PipelineOptions& pipeline) {
  std::vector<std::string> sentences = pipeline.stream.device == Device::cpu()
                                           ? without_effect_on_cpu(options, pipeline)
                                           : without_effect_on_gpu(options, pipeline);
  if (options.device == DeviceChoice::automatic && pipeline.processes > 1) {
    if (const auto library = gpu_library(); library && !library.value()->survey().gpus.empty())
      sentences.emplace_back(
          "computing on the CPU: a run of several processes cannot use a GPU; to use one, start "
          "one process");
  } else if (const std::string sentence = no_gpu_warning(options); !sentence.empty()) {
    sentences.push_back(sentence);
  }
  return sentences;
}

/// Sentences for more threads than cores.
std::vector<std::string> crowded_cores(const Options& options, const PipelineOptions& pipeline) {
  std::vector<std::string> sentences;
  const std::uint32_t processes = pipeline.processes;
  const bool on_gpu = pipeline.stream.device != Device::cpu();
  const int actors = actor_threads(options, processes);
  const int kernel_threads = on_gpu ? 1 : intra_op_threads(options, processes);
  const int threads = actors * kernel_threads;
  if (threads > available_cores())
    sentences.push_back(fmt::format(
        "{}{} share {}; lower parallel.actor_threads{}", counted(actors, "actor thread"),
        on_gpu ? "" : " × " + counted(kernel_threads, "intra-op thread"),
        counted(available_cores(), "core"), on_gpu ? "" : " or parallel.intra_op_threads"));
  if (pipeline.data.workers > std::max(available_cores(), 1))
    sentences.push_back(fmt::format("data.workers is {}, more than the {} of this process",
                                    pipeline.data.workers, counted(available_cores(), "core")));
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  const int neighbours = world ? world->local_size : 1;
  const int cores = world ? node_cores(*world, environment) : available_cores();
  if (processes > 1 && neighbours > 1 && neighbours * threads > cores)
    sentences.push_back(fmt::format("{} processes of {} share {}; fewer processes may be as fast",
                                    neighbours, counted(threads, "thread"),
                                    counted(cores, "core")));
  return sentences;
}

}  // namespace

std::string no_gpu_warning(const Options& options) {
  if (options.device != DeviceChoice::automatic) return {};
  const auto gpu = find_gpu();
  if (gpu) return {};
  return no_gpu_warning(in_words_of_the_command(gpu.error(), options.own),
                        allocated_gpus(Environment::of_process().variables()));
}

std::string no_gpu_warning(const Error& why, int allocated) {
  if (why.code() == ErrorCode::unsupported)
    return fmt::format("computing on the CPU: {}; {}", why.message(), why.remedy());
  if (allocated == 0) return {};
  return fmt::format("computing on the CPU: {}; {} stay{} idle: {}, or use CPU nodes",
                     why.message(), counted(allocated, "allocated GPU"), allocated == 1 ? "s" : "",
                     why.remedy());
}

std::string lost_gradients_warning(const PipelineOptions& pipeline, std::uint32_t steps) {
  const std::uint32_t lost = std::min(pipeline.staleness, steps);
  if (lost == 0) return {};
  return fmt::format(
      "asynchronous aggregation: the gradients of the last {} are lost, so the weights will differ "
      "from those of an uninterrupted run",
      lost == 1 ? "step" : counted(lost, "step"));
}

std::vector<std::string> shape_warnings(const PipelineOptions& pipeline) {
  const WorkLimits shares{.pipeline = std::ssize(pipeline.partition),
                          .data = pipeline.replicas,
                          .micro_batches = pipeline.micro_batches};
  std::vector<std::string> sentences;
  if (const std::string uneven = uneven_words(pipeline.processes, shares); !uneven.empty())
    sentences.push_back(fmt::format("{}; {} processes would have the same number each", uneven,
                                    even_processes(pipeline.processes, shares)));
  if (const std::string uneven = uneven_micro_batches(shares); !uneven.empty())
    sentences.push_back(fmt::format("{}; train.micro_batches={} would give each the same number",
                                    uneven,
                                    (shares.micro_batches / shares.data + 1) * shares.data));
  if (shares.pipeline > 1 && shares.micro_batches == shares.data)
    sentences.push_back(
        fmt::format("the {} stages take turns, since each replica has one micro-batch: raise "
                    "train.micro_batches, or set parallel.pipeline to 1 if the model fits",
                    shares.pipeline));
  std::ranges::move(uneven_batches(pipeline), std::back_inserter(sentences));
  std::ranges::move(small_norms(pipeline), std::back_inserter(sentences));
  if (pipeline.data.mix.any() && pipeline.batch_size < 2 * std::int64_t{pipeline.micro_batches})
    sentences.emplace_back(
        "a micro-batch of one sample has nothing to mix it with: lower train.micro_batches or "
        "raise train.batch_size");
  const auto trains = [&](const std::string& parameter) {
    const ParameterGroup* group = pipeline.optimizer.group_of(parameter);
    return (group ? group->lr.value_or(pipeline.rate.lr) : pipeline.rate.lr) > 0;
  };
  const std::vector<std::string> parameters = parameter_names(model_of(pipeline));
  if (std::ranges::none_of(parameters, trains))
    sentences.push_back(fmt::format("{}: the weights will not change",
                                    pipeline.rate.lr == 0
                                        ? "train.lr is 0"
                                        : "train.freeze and train.groups freeze all parameters"));
  std::ranges::move(frozen_groups(pipeline.optimizer, parameters), std::back_inserter(sentences));
  std::ranges::move(surplus_outputs(pipeline), std::back_inserter(sentences));
  std::ranges::move(missing_steps(pipeline), std::back_inserter(sentences));
  const auto of_bytes = [](double value) { return std::abs(value) > 1; };
  for (const auto& [key, values] :
       {std::pair("data.mean", &pipeline.data.mean), std::pair("data.std", &pipeline.data.std)})
    if (pipeline.data.dataset.samples().dtype == DType::u8 &&
        std::ranges::any_of(*values, of_bytes))
      sentences.push_back(
          fmt::format("{} is [{}], but it is applied to pixels from 0 to 1: divide values for "
                      "pixels from 0 to 255 by 255",
                      key, fmt::join(*values, ", ")));
  const LearningRateOptions rate = learning_rate_options(pipeline);
  if (lacks_its_rise(rate))
    sentences.push_back(fmt::format(
        "one_cycle does not rise in {}{}: it falls from {}; train longer, or use another "
        "train.schedule",
        counted(rate.total_steps - rate.warmup_steps, "step"),
        rate.warmup_steps > 0 ? " after the warm-up" : "", rate.lr));
  for (std::string& note : model_of(pipeline).notes) sentences.push_back(std::move(note));
  return sentences;
}

namespace {

/// What the weights that a run starts from did not give.
std::vector<std::string> weights_warnings(const Options& options, const StartingPoint& start,
                                          const PipelineOptions& pipeline) {
  if (!options.weights_strict && options.weights.empty())
    return {"model.strict has no effect without model.weights"};
  if (options.weights_strict || start.weights.empty()) return {};
  const WeightsFile weights = open_weights(start.weights);
  const PartialWeights found = partial_weights(pipeline, weights.tensors, weights.name());
  constexpr std::size_t shown = 8;
  std::vector<std::string> sentences;
  if (!found.initialised.empty())
    sentences.push_back(fmt::format("{} of the model's {} tensors {} initial values: {}",
                                    found.initialised.size(), found.tensors.tensors.size(),
                                    found.initialised.size() == 1 ? "keeps its" : "keep their",
                                    listed(found.initialised, shown)));
  if (!found.unused.empty())
    sentences.push_back(fmt::format("{} of {} not used: {}",
                                    counted(std::ssize(found.unused), "tensor"),
                                    start.weights.string(), listed(found.unused, shown)));
  return sentences;
}

/// A sentence if the options ask for another first loss scale than that of the checkpoint.
std::vector<std::string> kept_loss_scale(const Options& options, const StartingPoint& start,
                                         const PipelineOptions& pipeline) {
  const auto scaling = loss_scale_options(pipeline);
  if (!scaling || scaling->mode == LossScaling::fixed ||
      changes_since(start.options, options).find("loss_scale.init_scale ") == std::string::npos)
    return {};
  for (const StatePtr& state : pipeline.initial)
    if (state && state->loss_scale)
      return {
          fmt::format("loss_scale.init_scale {:.9g} has no effect: the run continues with the "
                      "loss scale of the checkpoint, {:.9g}",
                      scaling->init_scale, state->loss_scale->scale)};
  return {};
}

}  // namespace

std::vector<std::string> variable_warnings(const Options& options) {
  const auto threads = Environment::of_process().get("OMP_NUM_THREADS");
  if (options.intra_op_threads > 0 || !threads || openmp_threads(*threads)) return {};
  return {
      fmt::format("OMP_NUM_THREADS={} is not a number: it has no effect", printable(*threads, 40))};
}

std::vector<std::string> warnings(const Options& options, const StartingPoint& start,
                                  const PipelineOptions& pipeline) {
  std::vector<std::string> sentences = options.warnings;
  for (std::string& sentence : variable_warnings(options)) sentences.push_back(std::move(sentence));
  for (std::string& sentence : shape_warnings(pipeline)) sentences.push_back(std::move(sentence));
  for (std::string& sentence : weights_warnings(options, start, pipeline))
    sentences.push_back(std::move(sentence));
  if (constexpr double usual = 0.001, high = 0.03;
      options.optimizer.name.starts_with("adam") && pipeline.rate.lr >= high)
    sentences.push_back(fmt::format("train.lr is {}; {} usually takes about {}", pipeline.rate.lr,
                                    options.optimizer.name, usual));
  // The average begins with the weights of the first step.
  if (const std::uint32_t steps = timeline_of(pipeline).steps; options.ema_decay > 0 && steps > 1)
    if (const double kept = std::pow(options.ema_decay, steps - 1); kept > 0.1)
      sentences.push_back(
          fmt::format("with train.ema_decay {}, the average after {} has {:.0f} % of the weights "
                      "after the first step",
                      options.ema_decay, counted(steps, "step"), 100 * kept));
  if (pipeline.first_step < timeline_of(pipeline).steps)
    if (std::string lost = lost_gradients_warning(pipeline, start.steps); !lost.empty())
      sentences.push_back(std::move(lost));
  std::ranges::move(crowded_cores(options, pipeline), std::back_inserter(sentences));
  if (pipeline.stream.products == DType::f16 && pipeline.loss_scale.mode == LossScaling::none)
    sentences.emplace_back(
        "precision is 16-mixed without loss scaling, so small gradients become 0; to scale losses, "
        "set loss_scale.mode to auto");
  std::ranges::move(kept_loss_scale(options, start, pipeline), std::back_inserter(sentences));
  std::ranges::move(device_warnings(options, pipeline), std::back_inserter(sentences));
  const std::string processor = backend(pipeline.stream.device).fingerprint();
  if (!start.processor.empty() && start.processor != processor)
    sentences.push_back(fmt::format(
        "the checkpoint was written on another device or type of processor, so the weights may "
        "differ in their last bits: checkpoint: {}; this run: {}",
        start.processor, processor));
  return sentences;
}

}  // namespace troupe

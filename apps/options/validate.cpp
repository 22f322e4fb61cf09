// Options that contradict each other: one function for each rule, errors that name both values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "actors/data/batch_maker.h"
#include "actors/data/csv_table.h"
#include "actors/data/resident_images.h"
#include "actors/precision.h"
#include "apps/error_wording.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "runtime/error.h"
#include "runtime/text.h"
#include "runtime/world/memory_limit.h"

namespace troupe {
namespace {

class Validator {
 public:
  Validator(const Options& options, const OptionOrigins& origins)
      : options_(options), pipeline_(options.pipeline), data_(options.samples), origins_(origins) {}

  void check() const {
    check_dataset();
    check_optimizer();
    check_samples();
    check_precision();
    check_data();
    check_batch();
    check_schedule();
    check_loss();
    check_stopping();
    check_aggregation();
    check_loss_scale();
    check_partition();
    check_memory();
    check_groups();
    for (const FaultOptions& fault : options_.run.faults) check_fault(fault);
  }

 private:
  /// Throws unless `holds`; the position is that of the first of `paths` that an override set, else
  /// that a document set.
  template <class... Args>
  void require(bool holds, const std::vector<std::string>& paths, std::string remedy,
               fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    throw Error(ErrorCode::bad_options,
                position_of(paths) + fmt::format(format, std::forward<Args>(args)...),
                std::move(remedy));
  }
  /// "o.yaml:3:9: "; empty if none is set.
  std::string position_of(const std::vector<std::string>& paths) const {
    std::string where = "default";
    for (const std::string& path : paths)
      if (where == "default" ||
          (!where.starts_with("override") && origins_.of(path).starts_with("override")))
        where = origins_.of(path);
    return where == "default" ? "" : where + ": ";
  }

  /// The error of a definition, at the keys that it names; at `keys` if it names none that is set,
  /// or, with `together`, if an override set one of those alone.
  /// A file that is damaged, or that Troupe cannot run, stays one: its option is right.
  [[noreturn]] void refuse(const Error& error, std::vector<std::string> keys,
                           bool together = false) const {
    std::vector<std::string> named = keys_named_by(error, options_.own);
    const auto is_set = [&](const std::string& key) { return origins_.of(key) != "default"; };
    if (std::ranges::any_of(named, is_set)) {
      if (together) named.insert(named.end(), keys.begin(), keys.end());
      keys = std::move(named);
    }
    const Error worded = in_words_of_the_command(error, options_.own);
    const ErrorCode code = error.code();
    const bool of_file = code == ErrorCode::bad_file || code == ErrorCode::unsupported;
    throw Error(of_file ? code : ErrorCode::bad_options, position_of(keys) + worded.message(),
                worded.remedy());
  }
  template <class D>
  static std::vector<std::string> keys_of(const Choice<D>& choice) {
    std::vector<std::string> keys;
    D copy = choice.chosen();
    for (const OptionField& field : copy.options()) keys.push_back(field.path);
    keys.push_back(command_name_of(D::setting));
    return keys;
  }

  /// Files that cannot be read on this host are no mistake: what depends on them is not checked.
  void check_dataset() const {
    if (!data_ && data_.error().code() == ErrorCode::bad_options)
      refuse(data_.error(), keys_of(options_.dataset));
  }

  void check_optimizer() const {
    try {
      optimizer_of(options_).check();
    } catch (const Error& error) {
      std::vector<std::string> keys = keys_of(options_.optimizer);
      keys.emplace_back("train.groups");
      refuse(error, std::move(keys));
    }
  }

  void check_samples() const {
    if (!data_) return;
    const SampleSpec& samples = data_.value().samples;
    const std::int64_t channels = samples.shape.rank() == 3 ? samples.shape[0] : 1;
    check_per_channel("data.mean", pipeline_.data.mean.size(), channels);
    check_per_channel("data.std", pipeline_.data.std.size(), channels);
  }
  void check_per_channel(const char* path, std::size_t size, std::int64_t channels) const {
    require(size == 1 || size == static_cast<std::size_t>(channels), {path},
            "give one number, or one for each channel", "{} has {} for {}", path,
            counted(static_cast<std::int64_t>(size), "number"), counted(channels, "channel"));
  }

  void check_precision() const {
    const Stream& stream = pipeline_.stream;
    require(pipeline_.dtype == DType::f32 || !(stream.matmul_tf32 || stream.conv_tf32),
            {stream.matmul_tf32 ? "matmul_precision" : "conv_precision", "precision"},
            "leave it out, or set precision to 32-true",
            "{} is tf32, which rounds products of f32, but precision is {}",
            stream.matmul_tf32 ? "matmul_precision" : "conv_precision",
            name_of(Precision{pipeline_.dtype, stream.products}));
    const bool on_cpu = options_.device == DeviceChoice::cpu;
    require(!on_cpu || stream.products != DType::f16, {"precision", "device"},
            "set precision to 32-true, or device to cuda",
            "precision is 16-mixed, but device is cpu: only GPUs support f16");
  }

  void check_data() const {
    const std::vector<Augment>& augment = pipeline_.data.augment;
    const std::vector<double>& jitter = pipeline_.data.color_jitter;
    require(jitter.empty() || std::ranges::count(augment, Augment::color_jitter) > 0,
            {"data.color_jitter", "data.augment"}, "add color_jitter to data.augment",
            "data.color_jitter is [{}], but data.augment has no color_jitter",
            fmt::join(jitter, ", "));
    try {
      check_augmentations({.augment = augment, .color_jitter = jitter});
      if (data_)
        check_fits(augment, pipeline_.data.mix, data_.value().samples, options_.dataset.name);
    } catch (const Error& error) {
      refuse(error, {"data.augment"});
    }
    if (pipeline_.data.resident) check_resident_images();
  }

  /// Also on a CPU, where data.resident has no effect: the same options train on a GPU.
  void check_resident_images() const {
    if (!data_) return;
    try {
      check_resident({.augment = pipeline_.data.augment}, pipeline_.data.mix, data_.value().samples,
                     options_.dataset.name);
    } catch (const Error& error) {
      refuse(error, {"data.resident"}, true);
    }
  }

  void check_batch() const {
    const std::int64_t parts = pipeline_.micro_batches, replicas = pipeline_.replicas;
    require(parts >= replicas, {"train.micro_batches", "parallel.data"},
            fmt::format("raise train.micro_batches to {} or more", replicas),
            "train.micro_batches is {}, fewer than the {} replicas that share them", parts,
            replicas);
    require(pipeline_.batch_size >= parts, {"train.batch_size", "train.micro_batches"},
            fmt::format("raise train.batch_size to {} or more, or lower train.micro_batches to {}",
                        parts, pipeline_.batch_size),
            "train.batch_size is {}, less than one sample for each of {} micro-batches",
            pipeline_.batch_size, parts);
    if (!data_) return;
    const std::int64_t samples = data_.value().train;
    require(!pipeline_.data.drop_last || pipeline_.batch_size <= samples,
            {"train.batch_size", "data.limit", "data.count"},
            "lower train.batch_size, or set data.drop_last to false",
            "train.batch_size is {}, more than the {}: no whole batch", pipeline_.batch_size,
            counted(samples, "training sample"));
  }

  void check_schedule() const {
    if (!data_) return;
    const std::int64_t samples = data_.value().train, size = pipeline_.batch_size;
    const std::int64_t batches =
        pipeline_.data.drop_last ? samples / size : (samples + size - 1) / size;
    // train.steps ends a run early and leaves its learning rates as they are.
    const double all = static_cast<double>(batches) * static_cast<double>(pipeline_.epochs);
    constexpr std::int64_t most_steps = 4'000'000'000;  // steps travel as 32-bit numbers
    require(all <= most_steps, {"train.epochs", "train.batch_size"},
            batches <= most_steps ? "lower train.epochs"
                                  : "raise train.batch_size, or train on fewer samples",
            "train.epochs {} makes {:.0f} steps; at most {} are possible", pipeline_.epochs, all,
            most_steps);
    const std::int64_t steps = batches * pipeline_.epochs;
    const std::int64_t warmup = pipeline_.rate.warmup_steps;
    require(warmup < steps, {"train.warmup_steps", "train.epochs"},
            "lower train.warmup_steps, or raise train.epochs",
            "train.warmup_steps is {}, but the run has {} in train.epochs {}", warmup,
            counted(steps, "step"), pipeline_.epochs);
  }

  /// Prices in whole numbers are no classes.
  void check_targets() const {
    if (!data_ || options_.dataset.name != CsvTable::name) return;
    const SampleSpec& samples = data_.value().samples;
    const bool many = samples.classes > most_plausible_classes(data_.value());
    const bool regression = pipeline_.loss.kind == LossKind::mse;
    require(samples.target_dtype != DType::i64 || !(regression || many),
            {"data.targets", "data.target", "train.loss"},
            fmt::format("for regression, set data.targets to numbers{}",
                        regression ? "; for classes, train.loss to cross_entropy"
                                   : " and train.loss to mse"),
            "the targets of csv are whole numbers or texts, read as classes");
  }

  std::optional<std::int64_t> outputs_of_the_model() const {
    try {
      return options_.model.chosen().outputs();
    } catch (const Error& error) {
      refuse(error, keys_of(options_.model));
    }
  }

  void check_loss() const {
    check_targets();
    const LossFunction& loss = pipeline_.loss;
    const auto outputs = data_ ? outputs_of_the_model() : std::nullopt;
    try {
      troupe::check(loss);
      check_fits(loss, pipeline_.stopping);
      check_fits(loss, pipeline_.data.mix);
      if (data_) check_fits(loss, data_.value().samples, outputs, options_.model.chosen().file());
    } catch (const Error& error) {
      std::vector<std::string> keys = {"train.loss", "model.file", "data.name"};
      for (std::string& key : keys_of(options_.dataset)) keys.push_back(std::move(key));
      refuse(error, std::move(keys), true);
    }
  }

  /// Of tables and arrays. Other data sets lack a file, which the error of opening it names.
  void check_test_samples() const {
    const std::vector<std::string> keys = keys_of(options_.dataset);
    const auto has = [&](const char* key) { return std::ranges::count(keys, key) > 0; };
    if (!pipeline_.evaluates || !data_ || !has("data.test_fraction")) return;
    require(
        data_.value().test > 0, {"train.evaluate", "data.test_fraction"},
        fmt::format("set {}data.test_fraction to 0.1, or train.evaluate to false",
                    has("data.test_samples") ? "data.test_samples and data.test_targets, or " : ""),
        "train.evaluate is true, but {} has no test samples", options_.dataset.name);
  }

  void check_stopping() const {
    const EarlyStopping& stopping = pipeline_.stopping;
    require(pipeline_.evaluates || !stopping.is_set(),
            {"train.evaluate", "train.target_accuracy", "train.patience"},
            "set train.evaluate to true", "{} is set, but train.evaluate is false",
            stopping.target_accuracy > 0 ? "train.target_accuracy" : "train.patience");
    check_test_samples();
    const bool plateau = pipeline_.rate.schedule == LearningRateSchedule::plateau;
    require(pipeline_.evaluates || !plateau, {"train.evaluate", "train.schedule"},
            "set train.evaluate to true", "train.schedule is plateau, but train.evaluate is false");
    const bool keeps_best = options_.best_checkpoint_kept;
    require(pipeline_.evaluates || !keeps_best, {"train.evaluate", "checkpoint.keep_best"},
            "set train.evaluate to true",
            "checkpoint.keep_best is true, but train.evaluate is false");
  }

  void check_aggregation() const {
    require(options_.staleness == 1 || options_.aggregation == Aggregation::asynchronous,
            {"parallel.staleness", "parallel.aggregation"},
            "set parallel.aggregation to asynchronous, or leave parallel.staleness out",
            "parallel.staleness is {}, but parallel.aggregation is synchronous: gradients are "
            "applied in their own step",
            options_.staleness);
    require(
        !pipeline_.cuda_graphs || options_.aggregation == Aggregation::synchronous,
        {"cuda_graphs", "parallel.aggregation"},
        "set cuda_graphs to false, or parallel.aggregation to synchronous",
        "cuda_graphs is true, but parallel.aggregation is asynchronous: passes of several steps "
        "need weights at several addresses, and a CUDA graph reads one");
  }

  void check_loss_scale() const {
    try {
      troupe::check(pipeline_.loss_scale);
    } catch (const Error& error) {
      refuse(error, {"loss_scale.init_scale", "loss_scale.min_scale"});
    }
    require(options_.aggregation == Aggregation::synchronous || !loss_scale_options(pipeline_),
            {"loss_scale.mode", "parallel.aggregation", "precision"},
            "set parallel.aggregation to synchronous, or loss_scale.mode to none",
            "loss scaling needs synchronous aggregation: with asynchronous aggregation, a gradient "
            "is applied in a later step, whose loss scale may differ");
  }

  /// `parts` numbers that add up to `total` and differ by at most 1.
  static std::vector<std::size_t> equal_parts(std::size_t total, std::size_t parts) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < parts; ++i)
      sizes.push_back((i + 1) * total / parts - i * total / parts);
    return sizes;
  }

  void check_partition() const {
    const auto stages = static_cast<std::size_t>(options_.stages);
    const std::vector<std::size_t>& partition = pipeline_.partition;
    const ModelSource& chosen = options_.model.chosen();
    const std::string model = (chosen.file().empty() ? "" : "the model in ") + model_title(chosen);
    const std::optional<std::size_t> blocks = blocks_of_the_model();
    require(!blocks || stages <= *blocks, {"parallel.pipeline", "model.name"},
            fmt::format("lower parallel.pipeline to {} or less", blocks.value_or(0)),
            "parallel.pipeline is {}, but {} has {}", stages, model,
            counted(static_cast<std::int64_t>(blocks.value_or(0)), "block"));
    const std::size_t total = std::accumulate(partition.begin(), partition.end(), std::size_t{0});
    const std::string example =
        blocks ? fmt::format(", such as [{}]", fmt::join(equal_parts(*blocks, stages), ", ")) : "";
    const std::string fewer =
        blocks && total != *blocks
            ? ""
            : fmt::format(", or set parallel.pipeline to {}", partition.size());
    require(partition.empty() || partition.size() == stages,
            {"parallel.partition", "parallel.pipeline"},
            fmt::format("give one number for each stage{}, or auto{}", example, fewer),
            "parallel.partition is [{}] for {}, but parallel.pipeline is {}",
            fmt::join(partition, ", "), counted(std::ssize(partition), "stage"), stages);
    require(
        partition.empty() || !blocks || total == *blocks, {"parallel.partition"},
        fmt::format("make the numbers add up to {}{}, or write auto", blocks.value_or(0), example),
        "parallel.partition is [{}], {} together, but {} has {}", fmt::join(partition, ", "),
        counted(static_cast<std::int64_t>(total), "block"), model, blocks.value_or(0));
  }

  /// Refuses a single parameter or sample that exceeds the memory of this host or job.
  void check_memory() const {
    if (!data_) return;
    const SampleSpec& samples = data_.value().samples;
    const Model model = options_.model.chosen().make(samples, pipeline_.dtype);
    const DType dtype = batch_type(samples, pipeline_.dtype);
    require_memory("a sample", samples.shape, dtype, {"data.image_size", "data.shape"});
    StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
    for (const ParameterSpec& parameter : spec.parameters())
      require_memory("the parameter " + parameter.name, parameter.shape, pipeline_.dtype,
                     {"model.widths", "data.image_size", "data.shape"});
  }
  void require_memory(const std::string& what, const Shape& shape, DType dtype,
                      std::vector<std::string> keys) const {
    const double bytes = static_cast<double>(shape.element_count()) * size_of(dtype);
    const MemoryLimit limit = memory_limit();
    const auto most = static_cast<double>(limit.bytes);
    std::vector<std::string> known = keys_of(options_.model);
    for (std::string& key : keys_of(options_.dataset)) known.push_back(std::move(key));
    std::erase_if(keys,
                  [&](const std::string& key) { return std::ranges::count(known, key) == 0; });
    require(bytes <= most, keys,
            keys.empty() ? "use a smaller model or smaller samples"
                         : fmt::format("lower {}", fmt::join(keys, " or ")),
            "{} has the shape {} and needs {:.1f} GiB, more than the memory of {}, {:.1f} GiB",
            what, to_string(shape), bytes / 0x1p30, limit.holder, most / 0x1p30);
  }

  void check_groups() const {
    for (const GroupOptions& group : options_.groups) check_values(group);
    if ((options_.groups.empty() && options_.frozen.empty()) || !data_) return;
    const Model model = options_.model.chosen().make(data_.value().samples, pipeline_.dtype);
    try {
      optimizer_of(options_).check_groups(parameter_names(model));
    } catch (const Error& error) {
      refuse(error, {"train.groups", "train.freeze"});
    }
  }

  void check_values(const GroupOptions& group) const {
    const std::string patterns = fmt::format("{}", fmt::join(group.parameters, ", "));
    require(!group.values.empty(), {"train.groups"},
            "give it one, such as weight_decay: 0, or remove it",
            "the parameter group [{}] sets no value", patterns);
    const std::vector<std::string> keys = keys_of(options_.optimizer);
    for (const auto& [name, value] : group.values)
      require(name == "lr" || std::ranges::count(keys, "train." + name) > 0, {"train.groups"},
              "remove it, or set train.optimizer to the optimizer that has it",
              "the parameter group [{}] sets {}, which {} does not have", patterns, name,
              options_.optimizer.name);
  }

  std::optional<std::size_t> blocks_of_the_model() const {
    try {
      return block_count(options_);
    } catch (const Error& error) {
      require(error.code() != ErrorCode::io || model_file(options_).empty(), {"model.file"},
              "check the path; if the file has moved: -r model.file=PATH", "{}", error.message());
      if (error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported)
        refuse(error, keys_of(options_.model));
      std::vector<std::string> keys = {"model.name"};
      const std::vector<std::string> of_samples = keys_of(options_.dataset);
      keys.insert(keys.end(), of_samples.begin(), of_samples.end());
      refuse(error, std::move(keys));
    }
  }

  /// Whether the actor exists is checked against the graph (check_faults).
  void check_fault(const FaultOptions& fault) const {
    const bool writes = fault.actor.starts_with("writer");
    const std::int64_t parts = writes ? options_.stages : pipeline_.micro_batches;
    require(fault.micro_batch < parts, {"faults"}, fmt::format("write 0 to {}", parts - 1),
            "faults names micro-batch {} of {}, but {}", fault.micro_batch, fault.actor,
            writes ? fmt::format("a writer has {}, one for each stage", parts)
                   : fmt::format("a step has {}", parts));
  }

  const Options& options_;
  const PipelineOptions& pipeline_;
  const Result<DatasetSummary>& data_;
  const OptionOrigins& origins_;
};

}  // namespace

void validate(const Options& options, const OptionOrigins& origins) {
  Validator(options, origins).check();
}

}  // namespace troupe

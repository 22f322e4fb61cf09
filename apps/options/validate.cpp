// Options that do not go together. A rule a function; each error names both values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "apps/options/load_options.h"
#include "apps/options/option_conversion.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

class Validator {
 public:
  Validator(const Options& options, const OptionOrigins& origins)
      : options_(options), origins_(origins) {}

  void check() const {
    check_kernels();
    check_samples();
    check_data();
    check_batch();
    check_schedule();
    check_aggregation();
    check_partition();
    for (const auto& fault : options_.faults) check_fault(fault);
  }

 private:
  /// Throws unless `holds`; the position is that of the first of `paths` that an override set, else
  /// that a document set.
  template <class... Args>
  void require(bool holds, std::initializer_list<const char*> paths, std::string remedy,
               fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    std::string where = "default";
    for (const char* path : paths)
      if (where == "default" ||
          (!where.starts_with("override") && origins_.of(path).starts_with("override")))
        where = origins_.of(path);
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...)),
                std::move(remedy));
  }

  bool synthetic() const { return options_.data.name == "synthetic"; }

  void check_kernels() const {
    require(options_.precision != "f64" || options_.convolution != "winograd",
            {"convolution", "precision"}, "take convolution: auto",
            "precision f64 has no convolution winograd");
    const auto& weights = options_.model.weights;
    require(weights.empty() || std::filesystem::exists(weights), {"model.weights"},
            "check the path", "model.weights is {}, which does not exist", weights.string());
  }

  void check_samples() const {
    const auto& shape = options_.data.shape;
    require(shape.size() == 3, {"data.shape"}, "write channels, height and width: [1, 28, 28]",
            "data.shape has {} sizes instead of 3", shape.size());
    const std::int64_t channels = synthetic() ? shape[0] : 1;
    require(options_.model.in_channels == channels, {"model.in_channels", "data.shape"},
            fmt::format("set model.in_channels to {}", channels),
            "model.in_channels is {}, but samples of {} have {}", options_.model.in_channels,
            options_.data.name, counted(channels, "channel"));
    const std::int64_t classes = synthetic() ? options_.data.classes : 10;
    require(options_.model.classes >= classes, {"model.classes", "data.classes"},
            fmt::format("set model.classes to {}", classes),
            "model.classes is {}, but {} has {} classes", options_.model.classes,
            options_.data.name, classes);
    check_per_channel("data.mean", options_.data.mean.size(), channels);
    check_per_channel("data.std", options_.data.std.size(), channels);
  }
  void check_per_channel(const char* path, std::size_t size, std::int64_t channels) const {
    require(size == 1 || size == static_cast<std::size_t>(channels), {path},
            "give one number, or one for each channel", "{} has {} numbers for {} channels", path,
            size, channels);
  }

  void check_data() const {
    const auto& data = options_.data;
    require(data.path.empty() || std::filesystem::is_directory(data.path), {"data.path"},
            "give the folder that holds the four IDX files",
            "data.path is {}, which is not a folder", data.path.string());
    require(std::count(data.augment.begin(), data.augment.end(), "flip") <= 1 &&
                std::count(data.augment.begin(), data.augment.end(), "crop") <= 1,
            {"data.augment"}, "name each once", "data.augment is [{}], with one of them twice",
            fmt::join(data.augment, ", "));
  }

  void check_batch() const {
    const auto& train = options_.train;
    const std::int64_t parts = train.micro_batches, replicas = options_.parallel.data;
    require(parts >= replicas, {"train.micro_batches", "parallel.data"},
            fmt::format("raise train.micro_batches to {} or more", replicas),
            "train.micro_batches is {}, fewer than the {} replicas that share them", parts,
            replicas);
    require(train.batch_size >= parts, {"train.batch_size", "train.micro_batches"},
            fmt::format("raise train.batch_size to {} or more, or lower train.micro_batches to {}",
                        parts, train.batch_size),
            "train.batch_size is {}, less than one sample for each of {} micro-batches",
            train.batch_size, parts);
    const std::int64_t samples = sample_count();
    require(!options_.data.drop_last || train.batch_size <= samples,
            {"train.batch_size", "data.limit", "data.count", "data.path"},
            "lower train.batch_size, or set data.drop_last to false",
            "train.batch_size is {}, but there are {} training samples: no whole batch",
            train.batch_size, samples);
  }

  /// Training samples; as Fashion-MNIST has them where its files are not on this host.
  std::int64_t sample_count() const {
    constexpr std::int64_t fashion_mnist = 60000;
    const std::int64_t limit = options_.data.limit;
    return count_training_samples(dataset_options(options_))
        .value_or(limit > 0 ? std::min(limit, fashion_mnist) : fashion_mnist);
  }

  void check_schedule() const {
    const auto& train = options_.train;
    require(!train.nesterov || train.momentum > 0, {"train.nesterov", "train.momentum"},
            "set train.momentum, for instance to 0.9",
            "train.nesterov is true, but train.momentum is 0");
    const std::int64_t samples = sample_count();
    const std::int64_t batches = options_.data.drop_last
                                     ? samples / train.batch_size
                                     : (samples + train.batch_size - 1) / train.batch_size;
    // train.steps ends a run early and leaves its rates as they are: it has no part in this.
    const std::int64_t steps = batches * train.epochs;
    constexpr std::int64_t most_steps = 4'000'000'000;  // steps travel as 32-bit numbers
    require(steps <= most_steps, {"train.epochs", "train.batch_size"}, "lower train.epochs",
            "train.epochs {} makes {} steps; at most {} are possible", train.epochs, steps,
            most_steps);
    require(train.warmup_steps < steps, {"train.warmup_steps", "train.epochs"},
            "lower train.warmup_steps, or raise train.epochs",
            "train.warmup_steps is {}, but the run has {} steps in train.epochs {}",
            train.warmup_steps, steps, train.epochs);
  }

  void check_aggregation() const {
    const auto& parallel = options_.parallel;
    require(parallel.staleness == 1 || parallel.aggregation == "asynchronous",
            {"parallel.staleness", "parallel.aggregation"},
            "set parallel.aggregation to asynchronous, or leave parallel.staleness out",
            "parallel.staleness is {}, but parallel.aggregation is synchronous: a sum is applied "
            "in its own step",
            parallel.staleness);
  }

  void check_partition() const {
    const auto& parallel = options_.parallel;
    const auto stages = static_cast<std::size_t>(parallel.pipeline);
    const std::size_t blocks = block_count();
    require(stages <= blocks, {"parallel.pipeline", "model.name"},
            fmt::format("lower parallel.pipeline to {} or less", blocks),
            "parallel.pipeline is {}, but {} has {} blocks to share", stages, options_.model.name,
            blocks);
    require(parallel.partition.empty() || parallel.partition.size() == stages,
            {"parallel.partition", "parallel.pipeline"}, "give one number for each stage, or auto",
            "parallel.partition is [{}] for {} stages, but parallel.pipeline is {}",
            fmt::join(parallel.partition, ", "), parallel.partition.size(), stages);
    const std::int64_t taken =
        std::accumulate(parallel.partition.begin(), parallel.partition.end(), std::int64_t{0});
    require(parallel.partition.empty() || taken == static_cast<std::int64_t>(blocks),
            {"parallel.partition"},
            fmt::format("make the numbers add up to {}, or write auto", blocks),
            "parallel.partition is [{}], {} blocks together, but {} has {}",
            fmt::join(parallel.partition, ", "), taken, options_.model.name, blocks);
  }

  /// Of the model as it would be built; what the model refuses is told with the key's position.
  std::size_t block_count() const {
    constexpr std::size_t most_widths = 64;
    require(options_.model.widths.size() <= most_widths, {"model.widths"}, "give fewer",
            "model.widths has {} numbers; at most {} are read", options_.model.widths.size(),
            most_widths);
    try {
      return make_model(model_options(options_)).blocks.size();
    } catch (const Error& error) {
      require(false, {"model.widths", "model.name", "data.shape"}, error.remedy(), "{}",
              error.message());
    }
    return 0;
  }

  /// Whether there is such an actor, the graph tells.
  void check_fault(const Options::Fault& fault) const {
    const bool writes = fault.actor.starts_with("writer");
    const std::int64_t parts = writes ? options_.parallel.pipeline : options_.train.micro_batches;
    require(fault.micro_batch < parts, {"faults"}, fmt::format("write 0 to {}", parts - 1),
            "faults names micro-batch {} of {}, but {}", fault.micro_batch, fault.actor,
            writes ? fmt::format("a writer has one for each of {} stages", parts)
                   : fmt::format("a step has {}", parts));
  }

  const Options& options_;
  const OptionOrigins& origins_;
};

}  // namespace

void validate(const Options& options, const OptionOrigins& origins) {
  Validator(options, origins).check();
}

}  // namespace troupe

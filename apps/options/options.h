#pragma once
// The options of a run. The members are the library's options structs, with the command's defaults
// where they differ; options_table.cpp binds each key of an options file to a member.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/pipeline.h"
#include "apps/options/definitions.h"
#include "ops/devices.h"
#include "runtime/error.h"
#include "runtime/flow/run.h"
#include "runtime/remote/transport_options.h"

namespace troupe {

/// When a sum of gradients is applied.
enum class Aggregation : std::uint8_t { synchronous, asynchronous };

/// The definitions that one key of an options file chooses from.
template <class D>
struct Choice {
  std::vector<D> all;                                  ///< each with its own options
  std::string name = std::string(all.front().name());  ///< of the chosen one

  const D& chosen() const { return find_definition(all, name); }
};

/// An item of train.groups.
struct GroupOptions {
  std::vector<std::string> parameters;        ///< as in ParameterGroup
  std::map<std::string, std::string> values;  ///< what it sets, by key without "train.", as YAML
};

enum class LogLevel : std::uint8_t { info, debug };

struct Options {
  /// The defaults, with the library's definitions and `added`. Throws Error{bad_options} where two
  /// of them have one name.
  explicit Options(Definitions added = {});

  Definitions own;  ///< those that were added, with their defaults
  Choice<ModelSource> model;
  bool classes_chosen = false;  ///< otherwise model.classes is auto: as many as the data set needs
  Choice<DatasetSource> dataset;
  Choice<Optimizer> optimizer;
  std::vector<GroupOptions> groups;
  double clip_norm = 0;   ///< as Optimizer::with_clip_norm
  double clip_value = 0;  ///< as Optimizer::with_clip_value
  double ema_decay = 0;   ///< as Optimizer::with_average
  /// pipeline_options (apps/train/training.h) completes it with values that depend on other options
  /// or on the machine. If the partition is empty, it chooses one.
  PipelineOptions pipeline{.model = model.chosen(),
                           .partition = {},
                           .data = {.dataset = Dataset(nullptr, {}), .mean = {}, .std = {}},
                           .micro_batches = 4};
  DatasetOptions selection;         ///< which samples of the data set; its seed is the pipeline's
  std::filesystem::path weights;    ///< file or checkpoint to start from; empty: none
  std::string weights_position;     ///< of `weights` in the options, for errors: "o.yaml:3:9: "
  bool weights_strict = true;       ///< the weights must fit the model
  std::vector<std::string> frozen;  ///< patterns of parameters that keep their values
  DeviceChoice device = DeviceChoice::automatic;  ///< of every stage
  std::int64_t stages = 1;
  Aggregation aggregation = Aggregation::synchronous;
  std::int64_t staleness = 1;  ///< PipelineOptions::staleness of asynchronous aggregation
  TransportOptions transport;
  int intra_op_threads =
      0;  ///< PipelineOptions::stream's; 0: intra_op_threads (training.h) finds it
  RunOptions run{.threads = 0};  ///< 0: as many as actor_threads (apps/train/training.h) finds
  std::uint32_t checkpoint_every_steps = 0;   ///< 0: no checkpoints by steps
  std::uint32_t checkpoint_every_epochs = 1;  ///< 0: none by epochs
  double checkpoint_every_minutes = 0;        ///< 0: none by time
  std::size_t checkpoints_kept = 3;
  bool best_checkpoint_kept = false;
  std::int64_t log_every_steps = 1;
  LogLevel log_level = LogLevel::info;
  /// What is known of the data set before it is opened, or why it cannot be read on this host.
  /// Found when the options are loaded.
  Result<DatasetSummary> samples{Error(ErrorCode::internal, "options that were not loaded", "")};
  /// What is no error but may be a mistake: options without effect, a data set that cannot be read.
  std::vector<std::string> warnings;
};

/// The options with which the data set is opened.
DatasetOptions dataset_options(const Options& options);

/// Opens the data set, unless it was opened when the options were loaded.
Dataset open_dataset(const Options& options);

/// The blocks of the model for samples of the data set; nothing if these are not known. Throws what
/// the model throws.
std::optional<std::size_t> block_count(const Options& options);

/// model.file as YAML; empty unless the model is that of a file.
std::string model_file(const Options& options);

/// What the user calls a model: "resnet18", or the path of its file, "net.pt2".
std::string model_title(const ModelSource& model);

/// The data set's own options as text, by key, but for where its files are.
std::map<std::string, std::string> dataset_settings(const Options& options);

}  // namespace troupe

#pragma once
// What a user can ask for. The members are the library's own options structs, with the command's
// defaults where these differ; options_table.cpp binds each key of an options file to a member.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "actors/data/datasets.h"
#include "actors/pipeline.h"
#include "ops/models/models.h"
#include "ops/optim/sgd.h"
#include "runtime/flow/run.h"
#include "runtime/remote/transport_options.h"

namespace troupe {

/// When a sum of gradients is applied.
enum class Aggregation : std::uint8_t { synchronous, asynchronous };

struct Options {
  /// Without what follows from other options or from the machine: pipeline_options
  /// (apps/train/training.h) adds it. An empty partition is to be found.
  PipelineOptions pipeline{
      .model = WideResNet{},
      .partition = {},
      .data = {.dataset = Dataset(nullptr, {}), .mean = {0.286}, .std = {0.353}},
      .micro_batches = 4};
  SgdOptions sgd{.momentum = 0.9, .weight_decay = 0.0005};  ///< PipelineOptions::optimizer
  std::string model = "wide_resnet";                        ///< the name of one of `models`
  std::vector<ModelSource> models = known_models();         ///< each with its own options
  std::int64_t in_channels = 1;           ///< of a sample; checked against the data set
  std::string dataset = "fashion_mnist";  ///< the name of one of `datasets`
  std::vector<DatasetSource> datasets = known_datasets();
  DatasetOptions selection;       ///< which samples of the data set; its seed is the pipeline's
  std::filesystem::path weights;  ///< safetensors file or checkpoint to start from; empty: none
  std::int64_t stages = 1;
  double bucket_cap_mb = 25;  ///< PipelineOptions::bucket_cap_bytes in MiB
  Aggregation aggregation = Aggregation::synchronous;
  std::int64_t staleness = 1;  ///< PipelineOptions::staleness of asynchronous aggregation
  TransportOptions transport;
  RunOptions run{.threads = 0};  ///< 0: as many as actor_threads (apps/train/training.h) finds
  std::size_t checkpoints_kept = 3;
  std::int64_t log_every_steps = 1;
};

/// The model that the options name, with its own options.
const ModelSource& model_source(const Options& options);

/// The data set that the options name, with its own options.
const DatasetSource& dataset_source(const Options& options);

/// What the data set is opened with.
DatasetOptions dataset_options(const Options& options);

/// What is known of the data set before it is opened. Where its files cannot be read on this host,
/// the numbers of Fashion-MNIST.
DatasetSummary dataset_summary(const Options& options);

/// The data set's own options as text, by key, but for where its files are.
std::map<std::string, std::string> dataset_settings(const Options& options);

}  // namespace troupe

#pragma once
// What a user can ask for. The members are the library's own options structs, with the command's
// defaults where these differ; options_table.cpp binds each key of an options file to a member.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "actors/data/dataset.h"
#include "actors/pipeline.h"
#include "ops/optim/sgd.h"
#include "runtime/flow/run.h"
#include "runtime/remote/transport_options.h"

namespace troupe {

/// When a sum of gradients is applied.
enum class Aggregation : std::uint8_t { synchronous, asynchronous };

struct Options {
  /// Without what follows from other options or from the machine: pipeline_options
  /// (apps/train/training.h) adds it. An empty partition is to be found.
  PipelineOptions pipeline{.model = {},
                           .partition = {},
                           .data = {.dataset = Dataset(nullptr), .mean = {0.286}, .std = {0.353}},
                           .micro_batches = 4};
  SgdOptions sgd{.momentum = 0.9, .weight_decay = 0.0005};  ///< PipelineOptions::optimizer
  DatasetOptions dataset;                                   ///< its seed is the pipeline's
  std::vector<std::int64_t> sample_shape = {1, 28, 28};     ///< DatasetOptions::shape
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

/// The data set's options, with the sample shape and the seed.
DatasetOptions dataset_options(const Options& options);

/// The model's options, with the size of its samples.
ModelOptions model_options(const Options& options);

}  // namespace troupe

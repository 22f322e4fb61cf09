#include "actors/pipeline_bytes.h"

#include <algorithm>
#include <numeric>

#include "actors/gradient_buckets.h"
#include "ops/models/model.h"
#include "ops/reference/take_images.h"

namespace troupe {
namespace {

/// The number of partial sums of a tree over all micro-batches when it has those of `range` only.
std::size_t sums_of(MicroBatchRange range, std::uint32_t micro_batches) {
  std::size_t sums = 0;
  for (std::uint32_t begin = range.first; begin < range.last; ++sums) {
    std::uint64_t size = 1;  // of the largest place of the tree that begins here and lies within
    while (begin % (2 * size) == 0 && size < micro_batches &&
           std::min<std::uint64_t>(begin + 2 * size, micro_batches) <= range.last)
      size *= 2;
    begin = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + size, range.last));
  }
  return sums;
}

}  // namespace

StageBytes stage_bytes(const PipelineOptions& options, std::size_t stage) {
  StageBytes bytes;
  if (options.block_costs.empty()) return bytes;
  for (const BlockRange& range : blocks_of(options, stage))
    for (std::size_t b = range.first; b < range.last; ++b) {
      const BlockCosts& block = options.block_costs[b];
      bytes.output = block.output_bytes;
      bytes.widened = block.widened_bytes;
      bytes.saved += block.saved_bytes;
      bytes.deferred += block.deferred_bytes;
      bytes.working = std::max(bytes.working, block.working_bytes);
      bytes.state += block.state_bytes;
      bytes.kept += block.kept_bytes;
    }
  return bytes;
}

std::vector<BucketBytes> bucket_bytes(const PipelineOptions& options, std::size_t stage) {
  const Model model = model_of(options);
  const auto in_bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * size_of(options.dtype);
  };
  StateSpec spec;
  std::vector<BucketBytes> buckets;
  const std::vector<BlockRange> ranges = blocks_of(options, stage);
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    std::vector<std::size_t> blocks;
    for (std::size_t b = range->first; b < range->last; ++b) {
      const std::int64_t before = spec.parameter_elements();
      model.blocks[b]->declare(spec);
      blocks.push_back(in_bytes(spec.parameter_elements() - before));
    }
    auto block = blocks.rbegin();
    for (const std::size_t count : gradient_buckets(blocks, options.bucket_cap_bytes)) {
      const auto end = block + static_cast<std::ptrdiff_t>(count);
      buckets.push_back({.blocks = count, .weights = std::accumulate(block, end, std::size_t{0})});
      block = end;
    }
  }
  buckets.front().statistics = in_bytes(spec.buffer_elements());
  buckets.front().squares = spec.parameters().size() * size_of(DType::f64);
  return buckets;
}

// Test samples take no more than training samples.
std::size_t sample_bytes(const PipelineOptions& options) {
  const SampleSpec& sample = options.data.dataset.samples();
  return static_cast<std::size_t>(sample.shape.element_count()) *
         size_of(training_type(sample, transform_options(options), options.data.mix));
}

std::size_t input_bytes(const PipelineOptions& options) {
  const SampleSpec& sample = options.data.dataset.samples();
  return static_cast<std::size_t>(sample.shape.element_count()) *
         size_of(batch_type(sample, options.dtype));
}

std::size_t target_bytes(const PipelineOptions& options) {
  const SampleSpec& sample = options.data.dataset.samples();
  const std::size_t each =
      static_cast<std::size_t>(sample.target_shape.element_count()) * size_of(sample.target_dtype);
  return options.data.mix.any() ? 2 * each : each;
}

std::size_t prepared_bytes(const PipelineOptions& options) {
  return has_resident_images(options) ? reference::window_numbers * sizeof(std::int64_t)
                                      : sample_bytes(options);
}

std::size_t resident_bytes(const PipelineOptions& options) {
  if (!has_resident_images(options)) return 0;
  const Dataset& data = options.data.dataset;
  const std::int64_t images =
      data.count(Split::train) + (options.evaluates ? data.count(Split::test) : 0);
  return static_cast<std::size_t>(images) * sample_bytes(options);
}

std::uint32_t loader_slots(const PipelineOptions& options) {
  constexpr std::uint32_t ahead = 2;  // sent beyond those that the first stage works on
  return schedule_of(options, 0).credits + ahead;
}

std::size_t micro_batch_samples(const PipelineOptions& options) {
  return static_cast<std::size_t>((options.batch_size + options.micro_batches - 1) /
                                  options.micro_batches);
}

std::size_t larger_micro_batches(const PipelineOptions& options) {
  return static_cast<std::size_t>(options.batch_size % options.micro_batches);
}

std::vector<std::uint32_t> reducer_shares(const PipelineOptions& options, std::size_t stage) {
  std::vector<std::uint32_t> shares;
  for (std::uint32_t r = 0; r < options.replicas; ++r) {
    if (r == 0 || process_of(options, stage, r) != process_of(options, stage, r - 1))
      shares.push_back(0);
    ++shares.back();
  }
  return shares;
}

std::size_t partial_bytes(const PipelineOptions& options, const BucketBytes& bucket,
                          MicroBatchRange own, std::size_t reducers) {
  return sums_of(own, options.micro_batches) * (bucket.weights / reducers) +
         (own.last - own.first) * bucket.statistics;
}

}  // namespace troupe

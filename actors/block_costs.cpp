#include "actors/block_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "actors/data/batch_maker.h"
#include "ops/backend.h"
#include "ops/nn/network.h"
#include "ops/widened.h"
#include "runtime/device/own_stream.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// Blocks are measured in turns, so that other work of the machine affects all of them. Only so many
// bytes of weights take turns: no process holds the whole of a large model.
constexpr std::size_t held_bytes = std::size_t{64} << 20;
constexpr std::chrono::seconds long_enough{3};

/// Bytes by the allocator's counters. These include other threads, such as one that reads the data
/// set.
struct MemoryReadings {
  std::vector<std::size_t> saved, working, deferred;
};

/// How long the work takes that `give` gives to the stream, by the device's clock if it has one.
template <class F>
std::chrono::nanoseconds time_of(const Stream& stream, F&& give) {
  synchronize(stream);
  DeviceStream* on_device = device_stream(stream);
  if (on_device) on_device->begin_range("measure");
  const auto begin = Clock::now();
  give();
  const DeviceRangePtr range = on_device ? on_device->end_range() : nullptr;
  synchronize(stream);
  const auto end = Clock::now();
  const auto span = range ? range->span() : std::nullopt;
  return span ? span->end - span->begin : end - begin;
}

std::size_t above(std::size_t high, std::size_t low) { return high > low ? high - low : 0; }

/// Of a block and one micro-batch that went forward.
struct WayBack {
  const Stream& stream;
  Network& block;
  ForwardPass& pass;
  Tensor grad;
  std::size_t before;  ///< bytes in use before the micro-batch
  CachingAllocator& allocator;

  void at_once(BlockCosts& costs, MemoryReadings& memory) {
    Tensor dx;
    const auto time = time_of(stream, [&] { dx = block.backward(pass, grad); });
    costs.backward = std::min(costs.backward, time);
    memory.working.push_back(above(allocator.counters().peak_bytes, before + memory.saved.back()));
  }

  void in_halves(BlockCosts& costs, MemoryReadings& memory) {
    Tensor dx;
    const auto inputs = time_of(stream, [&] { dx = block.backward_inputs(pass, grad); });
    // The second half may read the given gradient. Within a stage that is dx of the next block,
    // whose first layer also keeps this block's output. A stage keeps neither for its last block,
    // so its deferred bytes are slightly overestimated.
    const std::size_t handed_on = dx.defined() ? dx.bytes() : 0;
    memory.deferred.push_back(above(allocator.counters().in_use_bytes, before + handed_on));
    const auto weights = time_of(stream, [&] { block.backward_weights(pass); });
    costs.input_gradient = std::min(costs.input_gradient, inputs);
    costs.backward = std::min(costs.backward, inputs + weights);
  }
};

// Runs one micro-batch through a block; updates the costs and returns the block's output.
Tensor measure_once(const Stream& stream, Network& block, const Tensor& x, bool trained_before,
                    bool in_halves, BlockCosts& costs, MemoryReadings& memory) {
  auto& allocator = CachingAllocator::of(x.device());
  allocator.reset_peak();
  const Device device = stream.device;
  (void)backend(device).take_scratch(device.index);
  const std::size_t before = allocator.counters().in_use_bytes;
  const std::size_t lasting = allocator.counters().lasting_bytes;
  std::unique_ptr<ForwardPass> pass;
  const auto forward =
      time_of(stream, [&] { pass = block.forward(x, RandomKey{}, trained_before); });
  Tensor y = pass->result();
  const std::size_t after_forward = allocator.counters().in_use_bytes;
  costs.output_bytes = y.bytes();
  costs.widened_bytes =
      static_cast<std::size_t>(y.element_count()) * size_of(computed_type(y.dtype()));
  costs.forward = std::min(costs.forward, forward);
  memory.saved.push_back(above(after_forward, before));
  WayBack back{stream, block,    *pass, zeros(stream, y.shape(), y.dtype(), y.layout()),
               before, allocator};
  in_halves ? back.in_halves(costs, memory) : back.at_once(costs, memory);
  costs.scratch_sizes.merge(backend(device).take_scratch(device.index));
  costs.kept_bytes += allocator.counters().lasting_bytes - lasting;
  return y;
}

std::size_t median(std::vector<std::size_t> readings) {
  const auto middle = readings.begin() + static_cast<std::ptrdiff_t>(readings.size() / 2);
  std::ranges::nth_element(readings, middle);
  return *middle;
}

void forget_times(BlockCosts& costs) {
  costs.forward = costs.backward = costs.input_gradient = std::chrono::nanoseconds::max();
}

/// The part of the costs that needs no run.
BlockCosts costs_of(const Network& block, DType dtype) {
  BlockCosts costs;
  costs.name = block.blocks().front()->path();
  costs.parameters = block.spec().parameter_count();
  costs.state_bytes =
      static_cast<std::size_t>(block.spec().parameter_elements() + block.spec().buffer_elements()) *
      size_of(dtype);
  forget_times(costs);
  return costs;
}

/// A model whose blocks are measured in groups that take turns.
struct Measurement {
  const ModelSource& model;
  const SampleSpec& sample;
  DType dtype;
  Stream stream;
  int repetitions;
  const Freezes& freezes;
  std::size_t first_trained;  ///< block
  Tensor x;                   ///< of the next block
  std::vector<BlockCosts> all_costs;

  void measure_next(std::size_t count);
};

/// Measures the next group of blocks, of `count` in all: at least one.
void Measurement::measure_next(std::size_t count) {
  const std::size_t first = all_costs.size();
  std::vector<Network> blocks;
  std::vector<Tensor> inputs;
  for (std::size_t b = first, held = 0; b < count; ++b) {
    Network block(model.make(sample, dtype), b, b + 1, dtype, stream);
    if (freezes) block.freeze(freezes);
    BlockCosts costs = costs_of(block, dtype);
    held += costs.state_bytes;
    if (held > held_bytes && b > first) break;
    block.use(on_device(stream, initial_state(block.spec(), dtype, 0)));
    inputs.push_back(x);
    MemoryReadings unused;
    // Prepares kernels and fills the cache.
    x = measure_once(stream, block, x, first_trained < b, false, costs, unused);
    forget_times(costs);
    all_costs.push_back(std::move(costs));
    blocks.push_back(std::move(block));
  }
  std::vector<MemoryReadings> memory(blocks.size());
  const auto begin = std::chrono::steady_clock::now();
  const auto takes_long = [&] { return std::chrono::steady_clock::now() - begin > long_enough; };
  for (int r = 0; r < std::max(2, repetitions) && (r < 2 || !takes_long()); ++r)
    for (std::size_t i = 0; i < blocks.size(); ++i)
      measure_once(stream, blocks[i], inputs[i], first_trained < first + i, r % 2 == 1,
                   all_costs[first + i], memory[i]);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    BlockCosts& costs = all_costs[first + i];
    costs.input_gradient = std::min(costs.input_gradient, costs.backward);
    costs.saved_bytes = median(std::move(memory[i].saved));
    costs.working_bytes = median(std::move(memory[i].working));
    costs.deferred_bytes = median(std::move(memory[i].deferred));
  }
}

}  // namespace

void scale_samples(BlockCosts& costs, std::int64_t samples, std::int64_t measured,
                   std::size_t fixed_scratch) {
  const double factor = static_cast<double>(samples) / static_cast<double>(measured);
  const auto scale = [&](std::size_t& bytes, std::size_t fixed) {
    const std::size_t grows = bytes - std::min(bytes, fixed);
    bytes =
        bytes - grows + static_cast<std::size_t>(std::ceil(static_cast<double>(grows) * factor));
  };
  scale(costs.working_bytes, costs.state_bytes);  // the gradient is a part of it
  for (std::size_t* bytes :
       {&costs.saved_bytes, &costs.deferred_bytes, &costs.output_bytes, &costs.widened_bytes})
    scale(*bytes, 0);
  std::set<std::size_t> sizes;
  for (std::size_t size : costs.scratch_sizes) {
    scale(size, fixed_scratch);
    sizes.insert(size);
  }
  costs.scratch_sizes = std::move(sizes);
  for (std::chrono::nanoseconds* time : {&costs.forward, &costs.backward, &costs.input_gradient})
    *time = std::chrono::duration_cast<std::chrono::nanoseconds>(*time * factor);
}

std::vector<BlockCosts> measure_blocks(const ModelSource& model, const SampleSpec& sample,
                                       DType dtype, Stream like, std::int64_t samples,
                                       int repetitions, const Freezes& freezes) {
  const OwnStream own(like);
  const Stream& stream = own.get();
  const Model whole = model.make(sample, dtype);
  Measurement measurement{.model = model,
                          .sample = sample,
                          .dtype = dtype,
                          .stream = stream,
                          .repetitions = repetitions,
                          .freezes = freezes,
                          .first_trained = first_trained_block(whole, freezes),
                          .x = on_device(stream, Tensor::zeros(batch_shape(samples, sample.shape),
                                                               batch_type(sample, dtype))),
                          .all_costs = {}};
  const std::size_t count = whole.blocks.size();
  while (measurement.all_costs.size() < count) measurement.measure_next(count);
  return std::move(measurement.all_costs);
}

std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts) {
  const std::size_t n = costs.size();
  if (parts == 0 || parts > n)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} blocks cannot be divided into {} stages", n, parts),
                "lower `stages`, or choose a model of more blocks");
  std::vector<double> before(n + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
  // best[p][i]: smallest dearest run when the first i blocks make p runs; from[p][i]: where the
  // last of them begins.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector best(parts + 1, std::vector<double>(n + 1, never));
  std::vector from(parts + 1, std::vector<std::size_t>(n + 1, 0));
  best[0][0] = 0;
  for (std::size_t p = 1; p <= parts; ++p)
    for (std::size_t i = p; i <= n; ++i)
      for (std::size_t j = p - 1; j < i; ++j) {
        const double dearest = std::max(best[p - 1][j], before[i] - before[j]);
        if (dearest < best[p][i]) {
          best[p][i] = dearest;
          from[p][i] = j;
        }
      }
  std::vector<std::size_t> partition(parts);
  for (std::size_t p = parts, i = n; p > 0; i = from[p--][i]) partition[p - 1] = i - from[p][i];
  return partition;
}

void check_partition(const std::vector<std::size_t>& partition, std::size_t blocks) {
  const auto is_a_count = [&](std::size_t count) { return count > 0 && count <= blocks; };
  const std::size_t sum = std::accumulate(partition.begin(), partition.end(), std::size_t{0});
  // In this order: larger counts could wrap to the right sum.
  if (!std::ranges::all_of(partition, is_a_count) || sum != blocks)
    throw Error(ErrorCode::bad_options,
                fmt::format("`partition` [{}] has {} blocks in total, but the model has {}",
                            fmt::join(partition, ", "), sum, blocks),
                fmt::format("give each stage at least one block, {} in all", blocks));
}

}  // namespace troupe

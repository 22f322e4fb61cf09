#include "actors/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "actors/data/batch_maker.h"
#include "ops/backend.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// Blocks are measured in turns, so that other work of the machine affects all of them. Only so many
// bytes of weights take turns: no process holds the whole of a large model.
constexpr std::size_t held_bytes = std::size_t{64} << 20;

/// Bytes by the allocator's counters. These include other threads, such as one that reads the data
/// set.
struct MemoryReadings {
  std::vector<std::size_t> saved, working, deferred;
};

std::size_t above(std::size_t high, std::size_t low) { return high > low ? high - low : 0; }

/// Of a block and one micro-batch that went forward.
struct WayBack {
  Network& block;
  ForwardPass& pass;
  Tensor grad;
  std::size_t before;  ///< bytes in use before the micro-batch
  CachingAllocator& allocator;

  void at_once(BlockProfile& profile, MemoryReadings& memory) {
    const auto begin = Clock::now();
    const Tensor dx = block.backward(pass, grad);
    profile.backward = std::min(profile.backward, Clock::now() - begin);
    memory.working.push_back(above(allocator.counters().peak_bytes, before + memory.saved.back()));
  }

  void in_halves(BlockProfile& profile, MemoryReadings& memory) {
    const auto begin = Clock::now();
    const Tensor dx = block.backward_inputs(pass, grad);
    const auto middle = Clock::now();
    // The second half may read the given gradient. Within a stage that is dx of the next block,
    // whose first layer also keeps this block's output. A stage keeps neither for its last block,
    // so its deferred bytes are slightly overestimated.
    const std::size_t handed_on = dx.defined() ? dx.bytes() : 0;
    memory.deferred.push_back(above(allocator.counters().in_use_bytes, before + handed_on));
    const auto resumed = Clock::now();
    block.backward_weights(pass);
    profile.input_gradient = std::min(profile.input_gradient, middle - begin);
    profile.backward = std::min(profile.backward, middle - begin + (Clock::now() - resumed));
  }
};

// Runs one micro-batch through a block; updates the profile and returns the block's output.
Tensor measure_once(const Stream& stream, Network& block, const Tensor& x, bool first_block,
                    bool in_halves, BlockProfile& profile, MemoryReadings& memory) {
  auto& allocator = CachingAllocator::of(x.device());
  allocator.reset_peak();
  backend(x.device()).take_peak_request();
  const std::size_t before = allocator.counters().in_use_bytes;
  const auto begin = Clock::now();
  auto pass = block.forward(x, RandomKey{}, !first_block);
  Tensor y = pass->result();
  const auto middle = Clock::now();
  const std::size_t after_forward = allocator.counters().in_use_bytes;
  profile.output_bytes = y.bytes();
  profile.forward = std::min(profile.forward, middle - begin);
  memory.saved.push_back(above(after_forward, before));
  WayBack back{block, *pass, zeros(stream, y.shape(), y.dtype(), y.layout()), before, allocator};
  in_halves ? back.in_halves(profile, memory) : back.at_once(profile, memory);
  profile.scratch_bytes = std::max(profile.scratch_bytes, backend(x.device()).take_peak_request());
  return y;
}

std::size_t median(std::vector<std::size_t> readings) {
  const auto middle = readings.begin() + static_cast<std::ptrdiff_t>(readings.size() / 2);
  std::ranges::nth_element(readings, middle);
  return *middle;
}

void forget_times(BlockProfile& profile) {
  profile.forward = profile.backward = profile.input_gradient = std::chrono::nanoseconds::max();
}

/// The part of a profile that needs no run.
BlockProfile profile_of(const Network& block, DType dtype) {
  BlockProfile profile;
  profile.name = block.blocks().front()->path();
  profile.parameters = block.spec().parameter_count();
  profile.state_bytes =
      static_cast<std::size_t>(block.spec().parameter_elements() + block.spec().buffer_elements()) *
      size_of(dtype);
  forget_times(profile);
  return profile;
}

/// A model whose blocks are measured in groups that take turns.
struct Measurement {
  const ModelSource& model;
  const SampleSpec& sample;
  DType dtype;
  Stream stream;
  int repetitions;
  Tensor x;  ///< of the next block
  std::vector<BlockProfile> profiles;

  void measure_next(std::size_t count);
};

/// Measures the next group of blocks, of `count` in all: at least one.
void Measurement::measure_next(std::size_t count) {
  const std::size_t first = profiles.size();
  std::vector<Network> blocks;
  std::vector<Tensor> inputs;
  for (std::size_t b = first, held = 0; b < count; ++b) {
    Network block(model.make(sample), b, b + 1, dtype, stream);
    BlockProfile profile = profile_of(block, dtype);
    held += profile.state_bytes;
    if (held > held_bytes && b > first) break;
    block.use(on_device(stream, initial_state(block.spec(), dtype, 0)));
    inputs.push_back(x);
    MemoryReadings unused;
    // Prepares kernels and fills the cache.
    x = measure_once(stream, block, x, b == 0, false, profile, unused);
    forget_times(profile);
    profiles.push_back(std::move(profile));
    blocks.push_back(std::move(block));
  }
  std::vector<MemoryReadings> memory(blocks.size());
  for (int r = 0; r < std::max(2, repetitions); ++r)
    for (std::size_t i = 0; i < blocks.size(); ++i)
      measure_once(stream, blocks[i], inputs[i], first + i == 0, r % 2 == 1, profiles[first + i],
                   memory[i]);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    BlockProfile& profile = profiles[first + i];
    profile.input_gradient = std::min(profile.input_gradient, profile.backward);
    profile.saved_bytes = median(std::move(memory[i].saved));
    profile.working_bytes = median(std::move(memory[i].working));
    profile.deferred_bytes = median(std::move(memory[i].deferred));
  }
}

}  // namespace

std::vector<BlockProfile> profile_blocks(const ModelSource& model, const SampleSpec& sample,
                                         DType dtype, Stream stream, std::int64_t samples,
                                         int repetitions) {
  Measurement measurement{
      .model = model,
      .sample = sample,
      .dtype = dtype,
      .stream = stream,
      .repetitions = repetitions,
      .x = zeros(stream, batch_shape(samples, sample.shape), batch_type(sample, dtype)),
      .profiles = {}};
  const std::size_t count = model.make(sample).blocks.size();
  while (measurement.profiles.size() < count) measurement.measure_next(count);
  return std::move(measurement.profiles);
}

std::vector<std::size_t> balanced_partition(const std::vector<double>& costs, std::size_t parts) {
  const std::size_t n = costs.size();
  if (parts == 0 || parts > n)
    throw Error(ErrorCode::bad_options, fmt::format("{} blocks cannot make {} stages", n, parts),
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
  const std::size_t sum = std::accumulate(partition.begin(), partition.end(), std::size_t{0});
  if (sum != blocks || std::ranges::find(partition, 0u) != partition.end())
    throw Error(ErrorCode::bad_options,
                fmt::format("`partition` is [{}], {} blocks; the model has {}",
                            fmt::join(partition, ", "), sum, blocks),
                fmt::format("give each stage at least one block, {} in all", blocks));
}

}  // namespace troupe

#include "actors/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "actors/timeline.h"
#include "runtime/error.h"
#include "runtime/random.h"

namespace troupe {
namespace {

// The high half of bits * bound: uniform in [0, bound) but for bound / 2^64 (D. Lemire, "Fast
// random integer generation in an interval", ACM TOMACS 29, 2019, without the rejection).
std::uint64_t scale(std::uint64_t bits, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

void check_at_least_one(std::int64_t value, std::string_view name) {
  if (value < 1)
    throw Error(ErrorCode::bad_options, fmt::format("{} is {}", name, value), "give at least 1");
}

void check(const SamplerOptions& o) {
  check_at_least_one(o.samples, "the number of samples");
  check_at_least_one(o.batch_size, "`batch_size`");
  check_at_least_one(o.micro_batches, "`micro_batches`");
  check_at_least_one(o.replicas, "`replicas`");
  if (o.samples > std::numeric_limits<std::uint32_t>::max())
    throw Error(
        ErrorCode::bad_options,
        fmt::format("the data set has {} samples, more than an index of 32 bits counts", o.samples),
        "set `Dataset::limit`");
  if (o.drop_last && o.samples < o.batch_size)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("{} samples do not fill a batch of `batch_size` {}, and `drop_last` is true",
                    o.samples, o.batch_size),
        "lower `batch_size`, or set `drop_last` to false");
}

}  // namespace

std::vector<std::uint32_t> epoch_order(const SamplerOptions& options, std::int64_t epoch) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(options.samples));
  std::iota(order.begin(), order.end(), 0u);
  if (!options.shuffle) return order;
  const RandomKey key{options.seed, static_cast<std::uint32_t>(epoch), 0,
                      operation_id("data.shuffle")};
  std::array<std::uint32_t, 4> numbers{};
  for (std::size_t i = order.size(), drawn = 0; i > 1; --i, ++drawn) {
    if (drawn % 2 == 0) numbers = key.block(static_cast<std::uint32_t>(drawn / 2));
    const std::size_t at = drawn % 2 * 2;
    const std::uint64_t bits = std::uint64_t{numbers[at]} << 32 | numbers[at + 1];
    std::swap(order[i - 1], order[scale(bits, i)]);
  }
  return order;
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  check(options);
  const std::int64_t rounded_up =
      options.samples / options.batch_size + (options.samples % options.batch_size != 0);
  batches_per_epoch_ = options.drop_last ? options.samples / options.batch_size : rounded_up;
}

Sampler Sampler::for_evaluation(std::int64_t samples, const SamplerOptions& training) {
  return Sampler(
      {.samples = samples,
       .batch_size = std::max<std::int64_t>(1, training.batch_size / training.micro_batches),
       .shuffle = false,
       .drop_last = false});
}

std::int64_t Sampler::batch_samples(std::int64_t batch) const {
  return std::min(options_.batch_size, options_.samples - batch * options_.batch_size);
}

std::int64_t Sampler::micro_batch_count(std::int64_t batch) const {
  return std::min(options_.micro_batches, batch_samples(batch));
}

std::vector<MicroBatchSamples> Sampler::micro_batches(std::int64_t step, std::int64_t replica) {
  if (step < 0 || replica < 0 || replica >= options_.replicas)
    throw Error(ErrorCode::internal, fmt::format("no micro-batches of step {} on replica {} of {}",
                                                 step, replica, options_.replicas));
  const std::int64_t epoch = step / batches_per_epoch_;
  const std::int64_t batch = step % batches_per_epoch_;
  if (epoch != ordered_epoch_) order_ = epoch_order(options_, epoch);
  ordered_epoch_ = epoch;

  const std::int64_t samples = batch_samples(batch);
  const std::int64_t count = micro_batch_count(batch);
  const auto first = order_.begin() + batch * options_.batch_size;
  const auto start_of = [&](std::int64_t index) {
    return index * (samples / count) + std::min(index, samples % count);
  };
  std::vector<MicroBatchSamples> all;
  const MicroBatchRange own =
      micro_batch_range(static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(replica),
                        static_cast<std::uint32_t>(options_.replicas));
  for (std::uint32_t index = own.first; index < own.last; ++index) {
    std::vector<std::uint32_t> taken{first + start_of(index), first + start_of(index + 1)};
    const Header header{.key = {static_cast<std::uint32_t>(step), Purpose::train, index},
                        .samples = static_cast<std::uint32_t>(taken.size()),
                        .batch_samples = static_cast<std::uint32_t>(samples),
                        .micro_batches = static_cast<std::uint32_t>(count)};
    all.push_back({header, epoch, std::move(taken)});
  }
  return all;
}

}  // namespace troupe

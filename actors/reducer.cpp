#include "actors/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace troupe {
namespace {

// Elements between two possible ends of chunks: a cache line of f32.
constexpr std::int64_t grain = 16;

/// Chunk `index` of `count` of a flat tensor; undefined where it would be empty.
Tensor chunk_of(const Tensor& tensor, std::size_t index, std::size_t count) {
  if (!tensor.defined()) return {};
  const std::int64_t elements = tensor.element_count();
  const auto edge = [&](std::size_t i) {
    const auto even = elements * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(count);
    return i == count ? elements : even / grain * grain;
  };
  const std::int64_t begin = edge(index), end = edge(index + 1);
  return begin == end ? Tensor() : tensor.narrow(begin, end - begin);
}

}  // namespace

Reducer::Reducer(ReducerOptions options) : options_(std::move(options)) {
  const auto& shares = options_.shares;
  replicas_ = std::accumulate(shares.begin(), shares.end(), 0u);
  first_replica_ = std::accumulate(
      shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(options_.index), 0u);
  to_.resize(shares.size());
  for (std::size_t i = 0; i < to_.size(); ++i)
    if (i != options_.index)
      to_[i] = std::make_unique<Output<PartialGradient>>(this, fmt::format("partial/{}", i));
}

MicroBatchRange Reducer::own_range() const {
  const std::uint32_t count = step_->header.micro_batches;
  const std::uint32_t last_replica = first_replica_ + options_.shares[options_.index] - 1;
  return {micro_batch_range(count, first_replica_, replicas_).first,
          micro_batch_range(count, last_replica, replicas_).last};
}

bool Reducer::own_done() const {
  if (!step_) return false;
  const MicroBatchRange own = own_range();
  return step_->taken == own.last - own.first;
}

bool Reducer::can_share() const {
  return chunk.has_slot() &&
         std::ranges::all_of(to_, [](const auto& port) { return !port || port->has_slot(); });
}

std::optional<Reducer::Move> Reducer::next() const {
  if (gradient.ready() && !own_done()) return Move::gradient;
  if (partials.ready()) return Move::partial;
  if (!own_done()) return {};
  if (!step_->shared) return can_share() ? std::optional(Move::share) : std::nullopt;
  if (!step_->chunk_summed)
    return step_->partials.size() == others() ? std::optional(Move::sum_chunk) : std::nullopt;
  if (chunks.ready()) return Move::chunk;
  const bool whole = step_->held_chunks.size() == others();
  return whole && reduced.has_slot() ? std::optional(Move::finish) : std::nullopt;
}

ActionLabel Reducer::act() {
  const Move move = *next();
  if (!step_) begin_step(move == Move::gradient ? gradient.header() : partials.header());
  const MessageKey key = move == Move::gradient ? gradient.header().key : step_->header.key;
  switch (move) {
    case Move::gradient:
      take_gradient();
      break;
    case Move::share:
      share();
      break;
    case Move::partial:
      take_partial();
      break;
    case Move::sum_chunk:
      sum_chunk();
      break;
    case Move::chunk:
      take_chunk();
      break;
    case Move::finish:
      break;
  }
  // What needs nobody else follows at once.
  if (step_ && next() == Move::finish) finish();
  return {"R", key};
}

void Reducer::begin_step(const Header& header) {
  const KernelTable& table = kernels(options_.stream.device, options_.dtype);
  const std::uint32_t count = header.micro_batches;
  step_.emplace(Step{.header = header,
                     .own = GradientTree(count, table, options_.stream),
                     .chunk = GradientTree(count, table, options_.stream),
                     .statistics = std::vector<Tensor>(options_.bucket == 0 ? count : 0),
                     .partials = {},
                     .chunks = std::vector<Tensor>(options_.shares.size()),
                     .held_chunks = {}});
  if (others() == 0) step_->shared = step_->chunk_summed = true;  // there is nobody to ask
}

void Reducer::take_gradient() {
  const auto held = gradient.take();
  const std::uint32_t micro_batch = held.header.key.micro_batch;
  if (options_.bucket == 0) step_->statistics.at(micro_batch) = held->statistics;
  step_->own.add(micro_batch, held->weights);
  ++step_->taken;
  gradient.release(held);
}

// To each of the others its chunk of the sums made here.
void Reducer::share() {
  const MicroBatchRange own = own_range();
  const auto sums = step_->own.partial_sums();
  for (std::uint32_t other = 0; other < to_.size(); ++other) {
    PartialGradient partial{.first = own.first};
    for (const auto& [place, tensor] : sums) {
      const Tensor part = chunk_of(tensor, other, to_.size());
      if (other == options_.index) {
        step_->chunk.add(place, part);
        continue;
      }
      partial.levels.push_back(place.level);
      partial.indices.push_back(place.index);
      partial.sums.push_back(part);
    }
    if (other == options_.index) continue;
    if (options_.bucket == 0)
      partial.statistics.assign(step_->statistics.begin() + own.first,
                                step_->statistics.begin() + own.last);
    Header about = step_->header;
    about.key.micro_batch = options_.index;
    to_[other]->send(about, std::move(partial));
  }
  step_->shared = true;
}

void Reducer::take_partial() {
  auto held = partials.take();
  if (held.header.key.step != step_->header.key.step)
    throw Error(ErrorCode::internal, fmt::format("sums of step {} came during step {}",
                                                 held.header.key.step, step_->header.key.step));
  for (std::size_t i = 0; i < held->statistics.size(); ++i)
    step_->statistics.at(held->first + i) = held->statistics[i];
  for (std::size_t i = 0; i < held->sums.size(); ++i)
    step_->chunk.add({held->levels.at(i), held->indices.at(i)}, held->sums[i]);
  step_->partials.push_back(std::move(held));
}

void Reducer::sum_chunk() {
  const auto sum = step_->chunk.sum();
  if (!sum) throw Error(ErrorCode::internal, "the reducers' sums do not make a whole tree");
  step_->chunks[options_.index] = *sum;
  Header about = step_->header;
  about.key.micro_batch = options_.index;
  chunk.send(about, {options_.index, *sum});
  // The tree may be what was received itself, where a half is missing: it stays until the end.
  step_->chunk_summed = true;
}

void Reducer::take_chunk() {
  auto held = chunks.take();
  step_->chunks.at(held->reducer) = held->weights;
  step_->held_chunks.push_back(std::move(held));
}

Tensor Reducer::assembled() const {
  if (others() == 0) return *step_->own.sum();
  std::int64_t elements = 0;
  for (const Tensor& part : step_->chunks) elements += part.defined() ? part.element_count() : 0;
  Tensor whole = Tensor::empty(Shape{elements}, options_.dtype);
  std::byte* to = whole.raw();
  for (const Tensor& part : step_->chunks) {
    if (!part.defined()) continue;
    std::memcpy(to, part.raw(), part.bytes());
    to += part.bytes();
  }
  return whole;
}

void Reducer::finish() {
  Header about = step_->header;
  about.key.micro_batch = 0;  // of the step as a whole
  reduced.send(about, {assembled(), std::move(step_->statistics), options_.bucket});
  for (const auto& held : step_->partials) partials.release(held);
  for (const auto& held : step_->held_chunks) chunks.release(held);
  step_.reset();
}

FiringRules Reducer::firing_rules() const {
  // All else goes once a step, not once a micro-batch: no part of this.
  return {{{.name = "R", .takes = {{&gradient}}, .releases = {{&gradient}}, .fills = {}}}, {}};
}

}  // namespace troupe

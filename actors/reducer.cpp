#include "actors/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/on_device.h"

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

Reducer::Reducer(ReducerOptions options) : options_(std::move(options)), stream_(options_.stream) {
  const auto& shares = options_.shares;
  replicas_ = std::accumulate(shares.begin(), shares.end(), 0u);
  first_replica_ = std::accumulate(
      shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(options_.index), 0u);
  to_.resize(shares.size());
  for (std::size_t i = 0; i < to_.size(); ++i)
    if (i != options_.index)
      to_[i] = std::make_unique<Output<PartialGradient>>(this, fmt::format("partial/{}", i));
}

void Reducer::restore(const CommittedState&, std::uint32_t steps) {
  finished_ = steps;
  delays_ = options_.staleness;
}

MicroBatchRange Reducer::own_range(const Step& step) const {
  return micro_batch_range(step.header.micro_batches, first_replica_, replicas_,
                           options_.shares[options_.index]);
}

bool Reducer::own_done(const Step& step) const {
  const MicroBatchRange own = own_range(step);
  return step.taken == own.last - own.first;
}

bool Reducer::can_share() const {
  return std::ranges::all_of(to_, [](const auto& port) { return !port || port->has_slot(); });
}

// Messages are taken in whatever their step, so that none blocks those behind it.
std::optional<Reducer::Next> Reducer::next() const {
  if (delays_ > 0 && reduced.has_slot()) return Next{Move::delay, finished_};
  if (gradient.ready()) return Next{Move::gradient, gradient.header().key.step};
  if (partials.ready()) return Next{Move::partial, partials.header().key.step};
  if (chunks.ready()) return Next{Move::chunk, chunks.header().key.step};
  return next_to_send();
}

// Each kind of message leaves in the order of the steps.
std::optional<Reducer::Next> Reducer::next_to_send() const {
  bool earlier_chunk_missing = false;
  for (const auto& [number, step] : open_) {
    if (!own_done(step)) return std::nullopt;
    if (!step.shared) return can_share() ? std::optional(Next{Move::share, number}) : std::nullopt;
    if (step.chunk_summed) {
      if (number == finished_ && can_finish(step)) return Next{Move::finish, number};
    } else {
      if (!earlier_chunk_missing && can_sum_chunk(step)) return Next{Move::sum_chunk, number};
      earlier_chunk_missing = true;
    }
  }
  return std::nullopt;
}

bool Reducer::can_sum_chunk(const Step& step) const {
  return step.partials.size() == others() && chunk.has_slot();
}

bool Reducer::can_finish(const Step& step) const {
  return delays_ == 0 && step.held_chunks.size() == others() && reduced.has_slot();
}

ActionLabel Reducer::act() {
  const Next now = *next();
  MessageKey key{now.step, Purpose::train, 0};
  switch (now.move) {
    case Move::delay:
      delay();
      return {"delay", key};
    case Move::gradient:
      key = gradient.header().key;
      take_gradient();
      break;
    case Move::partial:
      take_partial();
      break;
    case Move::chunk:
      take_chunk();
      break;
    case Move::share:
      share(open_.at(now.step));
      break;
    case Move::sum_chunk:
      sum_chunk(open_.at(now.step));
      break;
    case Move::finish:
      finish();
      return {"R", key};
  }
  // Finishing needs no other message: it follows at once.
  if (const auto then = next(); then && then->move == Move::finish) finish();
  return {"R", key};
}

Reducer::Step& Reducer::open(const Header& header) {
  const std::uint32_t step = header.key.step;
  if (step < finished_ || step > finished_ + options_.staleness)
    throw Error(ErrorCode::internal,
                fmt::format("a gradient of step {} arrived; the open steps are {} to {}", step,
                            finished_, finished_ + options_.staleness));
  const auto found = open_.find(step);
  return found != open_.end() ? found->second : open_.emplace(step, opened(header)).first->second;
}

Reducer::Step Reducer::opened(const Header& header) const {
  const KernelTable& table = kernels(options_.stream.device, options_.dtype);
  const std::uint32_t count = header.micro_batches;
  Step step{.header = header,
            .own = GradientTree(count, table, stream_.get()),
            .chunk = GradientTree(count, table, stream_.get()),
            .statistics = std::vector<Tensor>(options_.bucket == 0 ? count : 0),
            .partials = {},
            .chunks = std::vector<Tensor>(options_.shares.size()),
            .held_chunks = {}};
  if (others() == 0) step.shared = step.chunk_summed = true;  // no exchange is needed
  return step;
}

// An empty sum, for a step before the first one that is applied.
void Reducer::delay() {
  const std::uint32_t step = finished_ + options_.staleness - delays_--;
  reduced.send({.key = {step, Purpose::train, 0}}, {{}, {}, options_.bucket});
}

void Reducer::take_gradient() {
  const auto held = gradient.take();
  Step& step = open(held.header);
  const std::uint32_t micro_batch = held.header.key.micro_batch;
  if (options_.bucket == 0) step.statistics.at(micro_batch) = held->statistics;
  step.own.add(micro_batch, on_device(stream_.get(), held->weights));
  ++step.taken;
  gradient.release(held);
}

// Sends each other reducer its chunk of the sums made here.
void Reducer::share(Step& step) {
  const MicroBatchRange own = own_range(step);
  const auto sums = step.own.partial_sums();
  for (std::uint32_t other = 0; other < to_.size(); ++other) {
    PartialGradient partial{.first = own.first};
    for (const auto& [place, sum] : sums) {
      const Tensor part = chunk_of(sum, other, to_.size());
      if (other == options_.index)
        step.chunk.add(place, part);
      else
        partial.sums.push_back({place, part});
    }
    if (other == options_.index) continue;
    if (options_.bucket == 0)
      partial.statistics.assign(step.statistics.begin() + own.first,
                                step.statistics.begin() + own.last);
    Header about = step.header;
    about.key.micro_batch = options_.index;
    to_[other]->send(about, std::move(partial));
  }
  step.shared = true;
}

void Reducer::take_partial() {
  auto held = partials.take();
  Step& step = open(held.header);
  for (std::size_t i = 0; i < held->statistics.size(); ++i)
    step.statistics.at(held->first + i) = held->statistics[i];
  for (const auto& [place, sum] : held->sums) step.chunk.add(place, on_device(stream_.get(), sum));
  step.partials.push_back(std::move(held));
}

void Reducer::sum_chunk(Step& step) {
  const auto sum = step.chunk.sum();
  if (!sum)
    throw Error(ErrorCode::internal, "the partial sums of the reducers do not cover the tree");
  step.chunks[options_.index] = *sum;
  Header about = step.header;
  about.key.micro_batch = options_.index;
  chunk.send(about, {options_.index, *sum});
  // Where a half of the tree is missing, the sum may be a received tensor: its slot stays taken.
  step.chunk_summed = true;
}

void Reducer::take_chunk() {
  auto held = chunks.take();
  Step& step = open(held.header);
  step.chunks.at(held->reducer) = held->weights;
  step.held_chunks.push_back(std::move(held));
}

Tensor Reducer::assembled(const Step& step) const {
  if (others() == 0) return *step.own.sum();
  std::int64_t elements = 0;
  for (const Tensor& part : step.chunks) elements += part.defined() ? part.element_count() : 0;
  const Stream& stream = stream_.get();
  Tensor whole = Tensor::empty(Shape{elements}, options_.dtype, stream.device);
  std::int64_t begin = 0;
  for (const Tensor& part : step.chunks) {
    if (!part.defined()) continue;
    Tensor place = whole.narrow(begin, part.element_count());
    kernels(stream.device, options_.dtype).copy(stream, part, place);
    begin += part.element_count();
  }
  return whole;
}

void Reducer::finish() {
  auto oldest = open_.extract(open_.begin());
  Step& step = oldest.mapped();
  Header about = step.header;
  about.key = {oldest.key() + options_.staleness, Purpose::train, 0};  // of the step as a whole
  reduced.send(about, {assembled(step), std::move(step.statistics), options_.bucket});
  for (const auto& held : step.partials) partials.release(held);
  for (const auto& held : step.held_chunks) chunks.release(held);
  finished_ = oldest.key() + 1;
}

FiringRules Reducer::firing_rules() const {
  // Everything else happens once a step, not once a micro-batch.
  return {{{.name = "R", .takes = {{&gradient}}, .releases = {{&gradient}}, .fills = {}}}, {}};
}

}  // namespace troupe

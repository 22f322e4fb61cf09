#include "actors/loader.h"

namespace troupe {

Loader::Source::Source(Loader* owner, Split split, TransformOptions transform)
    : workers(
          BatchMaker(owner->options_.dataset, split,
                     SampleTransform(transform, owner->options_.dataset.sample_shape())),
          // One more than is asked for: a credit comes back a moment after its delivery.
          owner->options_.workers, owner->options_.prefetch + 1,
          [owner, post = owner->poster()](Result<Batch> batch) {
            // Without workers this is called from within request(): it is this actor's own time.
            if (owner->options_.workers == 0) return owner->arrive(std::move(batch));
            auto shared = std::make_shared<Result<Batch>>(std::move(batch));
            post([shared](Actor& self) { static_cast<Loader&>(self).arrive(std::move(*shared)); });
          }) {}

Loader::Loader(LoaderOptions options) : options_(std::move(options)), sampler_(options_.sampler) {}

Loader::~Loader() = default;

void Loader::restore(const CommittedState&, std::uint32_t steps) {
  next_step_ = steps;
  // An earlier life may have ended within the evaluation; what was counted is dropped on arrival.
  const Timeline& timeline = options_.timeline;
  const bool is_due = steps > timeline.first || (steps > 0 && timeline.evaluates_first);
  if (is_due && timeline.evaluates_after(steps - 1)) plan_evaluation(steps - 1);
}

bool Loader::ready() const {
  return images.has_slot() && targets.has_slot() && (!arrived_.empty() || can_request());
}

// Results of the two sources come back on their own ways: what is under way is of one of them.
bool Loader::can_request() const {
  if (requested_.size() >= static_cast<std::size_t>(options_.prefetch)) return false;
  if (planned_.empty()) return next_step_ < options_.timeline.steps;
  const bool train = planned_.front().header.key.purpose == Purpose::train;
  const auto& other = train ? test_ : train_;
  return !other || other->waiting == 0;
}

Waiting Loader::waiting() const {
  if (!images.has_slot() || !targets.has_slot()) return Waiting::credit;
  return requested_.empty() ? Waiting::other : Waiting::input;
}

// Orders what can be prepared ahead; sends what is prepared.
ActionLabel Loader::act() {
  plan_ahead();
  request();
  if (arrived_.empty()) return {"plan", {next_step_, Purpose::train, 0}};
  Header header = requested_.front();
  requested_.pop_front();
  Batch batch = std::move(arrived_.front().value());  // throws what preparing it threw
  arrived_.pop_front();
  images.send(header, {std::move(batch.images)});
  targets.send(header, {std::move(batch.labels)});
  return {"load", header.key};
}

void Loader::plan_ahead() {
  while (planned_.size() < static_cast<std::size_t>(options_.prefetch) &&
         next_step_ < options_.timeline.steps)
    plan_step();
}

void Loader::plan_step() {
  const std::uint32_t step = next_step_++;
  for (MicroBatchPlan& plan : sampler_.plan(step, options_.replica)) {
    const Header header{.key = {step, Purpose::train, static_cast<std::uint32_t>(plan.micro_batch)},
                        .samples = static_cast<std::uint32_t>(plan.samples.size()),
                        .batch_samples = static_cast<std::uint32_t>(plan.batch_samples),
                        .micro_batches = static_cast<std::uint32_t>(plan.micro_batches)};
    planned_.push_back({header, std::move(plan)});
  }
  if (options_.timeline.evaluates_after(step)) plan_evaluation(step);
}

// Cut the same whatever the replicas, which take turns: a library's sums may depend on the size.
void Loader::plan_evaluation(std::uint32_t step) {
  const auto& training = sampler_.options();
  const std::int64_t size = std::max<std::int64_t>(1, training.batch_size / training.micro_batches);
  const std::int64_t count = options_.dataset.count(Split::test);
  Sampler sampler = Sampler::for_evaluation(count, size, 1, 1);
  const std::int64_t total = sampler.batches_per_epoch();
  for (std::int64_t index = options_.replica; index < total; index += training.replicas) {
    MicroBatchPlan plan = std::move(sampler.plan(index, 0).front());
    const Header header{.key = {step, Purpose::evaluate, static_cast<std::uint32_t>(index)},
                        .samples = static_cast<std::uint32_t>(plan.samples.size()),
                        .batch_samples = static_cast<std::uint32_t>(count),
                        .micro_batches = static_cast<std::uint32_t>(total)};
    planned_.push_back({header, std::move(plan)});
  }
}

void Loader::request() {
  while (!planned_.empty() && can_request()) {
    const bool train = planned_.front().header.key.purpose == Purpose::train;
    auto& source = train ? train_ : test_;
    if (!source) {
      TransformOptions transform = options_.transform;
      if (!train) transform.augment.clear();
      source = std::make_unique<Source>(this, train ? Split::train : Split::test, transform);
    }
    Planned next = std::move(planned_.front());
    planned_.pop_front();
    requested_.push_back(next.header);
    ++source->waiting;
    if (!source->workers.request(std::move(next.plan)))
      throw Error(ErrorCode::internal, "the loader asked its workers for more than they take");
  }
}

void Loader::arrive(Result<Batch> batch) {
  for (auto* source : {train_.get(), test_.get()})
    if (source && source->waiting > 0) {
      --source->waiting;
      break;
    }
  arrived_.push_back(std::move(batch));
}

}  // namespace troupe

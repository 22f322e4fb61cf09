#include "actors/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "actors/loader.h"
#include "actors/timeline.h"
#include "ops/on_device.h"

namespace troupe {

Stage::Stage(StageOptions options)
    : options_(std::move(options)), stream_(options_.program.stream) {
  options_.optimizer.check();
  check(options_.rate);
  if (options_.schedule.credits == 0)
    throw Error(ErrorCode::bad_options,
                fmt::format("the schedule of stage {} has 0 credits", options_.stage),
                "give at least 1: it is the number of micro-batches that the stage may hold");
  if (options_.staleness > 0 && !options_.micro_batches)
    throw Error(ErrorCode::bad_options,
                "a stage with staleness lacks the number of micro-batches of a step",
                "give StageOptions::micro_batches, a function of the step");
  if (options_.loss_scale) check(*options_.loss_scale);
  if (options_.staleness > 0 && options_.loss_scale)
    throw Error(ErrorCode::bad_options,
                "a stage has staleness and a loss scale: a sum would be applied in a step with "
                "another scale than its own",
                "leave one of them out");
  for (std::uint32_t bucket = 1; bucket < buckets(); ++bucket)
    more_gradients_.push_back(
        std::make_unique<Output<Gradient>>(this, fmt::format("gradient/{}", bucket)));
}

StatePtr Stage::starting_state() const {
  if (const StatePtr& state = *options_.starting_state) return state;
  throw Error(ErrorCode::bad_options,
              fmt::format("stage {} has no state to begin with: those of its run are for stages "
                          "where build_pipeline puts them, and for one run of its graph",
                          options_.stage),
              "leave stages in these processes, and build a graph for each run");
}

StageProgram& Stage::program() {
  if (program_) return *program_;
  program_ = options_.program(stream_.get(), std::move(resumed_));
  if (program_->ranges() != 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("the program of stage {} has {} ranges of blocks", options_.stage,
                            program_->ranges()),
                "give each stage one range: no schedule interleaves several");
  return *program_;
}

bool Stage::splits_backward() const {
  return options_.schedule.deferred_weight_gradients && input_gradient.connected();
}

// Of all buckets: a free slot stays free until this actor fills it.
bool Stage::has_gradient_slots() const {
  const auto free = [](const auto& port) { return port->has_slot(); };
  return gradient.has_slot() && std::ranges::all_of(more_gradients_, free);
}

bool Stage::can_begin_backward() const {
  if (!output_gradient.ready() || !in_flight_.contains(output_gradient.header().key.micro_batch))
    return false;
  if (splits_backward()) return input_gradient.has_slot();
  return has_gradient_slots() && (buckets() > 1 || input_gradient.has_slot());
}

bool Stage::can_continue_backward() const {
  if (going_back_.empty()) return false;
  const std::uint32_t bucket = going_back_.front().bucket;
  if (bucket == 0 && !has_gradient_slots()) return false;
  return splits_backward() || bucket + 1 < buckets() || input_gradient.has_slot();
}

// A backward that is not split counts until its last bucket is done.
std::uint32_t Stage::in_flight() const {
  return static_cast<std::uint32_t>(in_flight_.size() +
                                    (splits_backward() ? 0 : going_back_.size()));
}

std::uint32_t Stage::own_end(std::uint32_t micro_batches) const {
  return micro_batch_range(micro_batches, options_.replica, options_.replicas).last;
}

// Without staleness the sum can exist only after they did.
bool Stage::all_went_back() const {
  if (options_.staleness == 0) return true;
  const std::uint32_t all = options_.micro_batches(step_);
  const auto own = micro_batch_range(all, options_.replica, options_.replicas);
  return own.first == own.last || completed_ == own.last;
}

bool Stage::has_sums() const {
  const auto sums = sums_.find(step_);
  return sums != sums_.end() && sums->second.size() == buckets();
}

bool Stage::can_send_squares() const {
  return needs_norm() && gradient_squares.connected() && !squares_sent_ && has_sums() &&
         gradient_squares.has_slot();
}

bool Stage::can_update() const {
  const bool has_norm = norms_.contains(step_) || !needs_norm();
  const bool has_rate =
      factors_.contains(step_) || options_.rate.schedule != LearningRateSchedule::plateau;
  return !next_state_ && has_sums() && has_norm && has_rate && all_went_back();
}

StageView Stage::view() const {
  StageView view;
  view.in_flight = in_flight();
  view.can_update = can_update();
  view.can_backward = can_begin_backward();
  view.deferred = static_cast<std::uint32_t>(going_back_.size());
  view.can_run_deferred = can_continue_backward();
  view.gradient_may_come = !output_gradient.full();
  if (input.ready() && output.has_slot()) {
    const Header& header = input.header();
    // A micro-batch of a later step waits for the commit before it.
    if (header.key.purpose == Purpose::train) {
      view.can_forward = header.key.step == step_ && !closed_;
    } else {
      view.can_evaluate = header.key.step + 1 == step_;
    }
  }
  if (!in_flight_.empty())
    view.all_forwarded =
        forwarded_ == own_end(in_flight_.begin()->second.input.header.micro_batches);
  return view;
}

// A backward that has begun its buckets finishes first: the reducers wait for them, and in a
// backward that is not split the stage before waits too.
std::optional<StageAction> Stage::next() const {
  if (can_continue_backward() && going_back_.front().bucket > 0)
    return StageAction::weight_gradient;
  return next_action(view(), options_.schedule);
}

bool Stage::is_past(const MessageKey& key) const {
  return key.step + (key.purpose == Purpose::train ? 0 : 1) < step_;
}

bool Stage::stale() const {
  const auto past = [this](const InputPort& port) {
    return port.ready() && is_past(port.header().key);
  };
  return past(input) || past(output_gradient);
}

ActionLabel Stage::discard() {
  const auto drop = [this](auto& port) {
    while (port.ready() && is_past(port.header().key)) port.release(port.take());
  };
  drop(input);
  drop(output_gradient);
  return {"discard", {step_, Purpose::train, 0}};
}

ActionLabel Stage::act() {
  if (stale()) return discard();
  if (can_snapshot()) return send_snapshot();
  if (reduced.ready() || gradient_norm.ready() || rate_factor.ready()) {
    const MessageKey key = collect();
    if (!can_update()) return {"collect", key};
  }
  if (can_send_squares()) return send_squares();
  switch (*next()) {
    case StageAction::forward:
      return forward();
    case StageAction::backward:
      return backward();
    case StageAction::weight_gradient:
      return weight_gradient();
    case StageAction::evaluate:
      return evaluate();
    case StageAction::update:
      return update();
  }
  return {};
}

ActionLabel Stage::forward() {
  auto held = input.take();
  const MessageKey key = held.header.key;
  const RandomKey random{options_.seed, key.step, key.micro_batch, 0};
  const bool wants_input_gradient = input_gradient.connected() && options_.trained_before;
  auto [result, saved] = program().forward(held->tensor, random, wants_input_gradient, 0);
  output.send(held.header, {std::move(result)});
  in_flight_.emplace(key.micro_batch, InFlight{std::move(held), std::move(saved)});
  forwarded_ = key.micro_batch + 1;
  return {"F", key};
}

ActionLabel Stage::backward() {
  auto grad = output_gradient.take();
  const Header about = grad.header;
  auto flight = in_flight_.extract(about.key.micro_batch);
  Tensor gradient = scaled(grad->tensor);
  going_back_.push_back({std::move(flight.mapped()), std::move(grad), std::move(gradient)});
  if (splits_backward()) {
    const GoingBack& last = going_back_.back();
    input_gradient.send(about, {program().input_gradient(*last.forward.saved, last.gradient)});
  } else {
    continue_backward();
  }
  return {"B", about.key};
}

LossScale Stage::loss_scale() {
  if (!options_.loss_scale) return {};
  return loss_scale_after(*options_.loss_scale, program().state()->loss_scale);
}

Tensor Stage::scaled(const Tensor& gradient) {
  if (!options_.loss_scale || !options_.last) return gradient;
  const Stream& stream = stream_.get();
  const Tensor given = on_device(stream, gradient);  // others may hold it
  Tensor result = Tensor::empty(given.shape(), given.dtype(), given.device(), given.layout());
  kernels(given.device(), given.dtype()).scale(stream, given, loss_scale().scale, result);
  return result;
}

ActionLabel Stage::weight_gradient() {
  const MessageKey key = going_back_.front().grad.header.key;
  continue_backward();
  return {splits_backward() ? "W" : "B", key};
}

void Stage::continue_backward() {
  GoingBack& first = going_back_.front();
  const Header about = first.grad.header;
  const std::uint32_t bucket = first.bucket++;
  auto made = program().backward(*first.forward.saved, first.gradient, bucket);
  gradient_of(bucket)->send(about, {std::move(made.gradient), std::move(made.statistics)});
  if (bucket + 1 < buckets()) return;
  if (input_gradient.connected() && !splits_backward())
    input_gradient.send(about, {std::move(made.input_gradient)});
  end_backward();
}

void Stage::end_backward() {
  GoingBack done = std::move(going_back_.front());
  going_back_.pop_front();
  const Header& header = done.forward.input.header;
  completed_ = header.key.micro_batch + 1;
  if (options_.staleness > 0 && completed_ == own_end(header.micro_batches)) {
    held_back_.emplace(std::move(done.forward.input), std::move(done.grad));
  } else {
    input.release(done.forward.input);
    output_gradient.release(done.grad);
  }
}

ActionLabel Stage::evaluate() {
  const auto held = input.take();
  output.send(held.header, {program().evaluate(held->tensor, 0)});
  input.release(held);
  return {"E", held.header.key};
}

namespace {

/// Takes the messages of an input that has one a step.
template <class T>
void take_all(Input<T>& input, std::uint32_t open, std::map<std::uint32_t, Held<T>>& kept) {
  while (input.ready()) {
    auto taken = input.take();
    const std::uint32_t step = taken.header.key.step;
    if (step < open)
      input.release(taken);
    else
      kept.insert_or_assign(step, std::move(taken));
  }
}

template <class T>
void release_step(Input<T>& input, std::uint32_t step, std::map<std::uint32_t, Held<T>>& kept) {
  if (const auto held = kept.extract(step)) input.release(held.mapped());
}

}  // namespace

MessageKey Stage::collect() {
  const MessageKey key = (reduced.ready()         ? reduced.header()
                          : gradient_norm.ready() ? gradient_norm.header()
                                                  : rate_factor.header())
                             .key;
  while (reduced.ready()) {
    auto sum = reduced.take();
    if (sum.header.key.step < step_)  // of a step that was committed before this incarnation
      reduced.release(sum);
    else
      sums_[sum.header.key.step].push_back(std::move(sum));
  }
  take_all(gradient_norm, step_, norms_);
  take_all(rate_factor, step_, factors_);
  return key;
}

ActionLabel Stage::send_squares() {
  const MessageKey key{step_, Purpose::train, static_cast<std::uint32_t>(options_.stage)};
  gradient_squares.send(
      {.key = key}, {program().gradient_squares(options_.optimizer, gradients()), loss_scale()});
  squares_sent_ = true;
  return {"Q", key};
}

std::vector<Tensor> Stage::gradients() const {
  std::vector<Tensor> gradients;
  for (const auto& sum : sums_.at(step_)) {
    if (!sum->weights.defined()) continue;
    gradients.resize(buckets());
    gradients.at(sum->bucket) = sum->weights;
  }
  return gradients;
}

ActionLabel Stage::update() {
  std::vector<Tensor> statistics;
  for (const auto& sum : sums_.at(step_))
    if (sum->weights.defined() && sum->bucket == 0) statistics = sum->statistics;
  const auto norm_of_step = norms_.find(step_);
  const double norm = norm_of_step != norms_.end() ? norm_of_step->second->norm : 0;
  LearningRateOptions rate = options_.rate;
  if (const auto factor = factors_.find(step_); factor != factors_.end())
    rate.plateau_factor = factor->second->factor;
  const LossScale scale = loss_scale();
  const bool finite = !options_.loss_scale || std::isfinite(norm);
  next_state_ = program().step(options_.optimizer.at(rate, step_, norm, scale.scale),
                               learning_rate(rate, step_),
                               finite ? gradients() : std::vector<Tensor>{}, statistics);
  if (options_.loss_scale) {
    auto next = std::make_shared<StateVersion>(*next_state_);
    next->loss_scale = next_loss_scale(*options_.loss_scale, scale, finite);
    next_state_ = std::move(next);
  }
  vote(step_, next_state_);
  return {"U", {step_, Purpose::train, 0}};
}

void Stage::on_commit(const Commit& commit) {
  closed_ = commit.last;
  if (commit.step + 1 <= step_) return ask_snapshot(commit);  // begun from this commit
  if (options_.starting_state) options_.starting_state->reset();
  abandon_step();
  program().use(std::move(next_state_));
  next_state_.reset();
  for (const auto& sum : sums_[commit.step]) reduced.release(sum);
  sums_.erase(commit.step);
  release_step(gradient_norm, commit.step, norms_);
  release_step(rate_factor, commit.step, factors_);
  squares_sent_ = false;
  if (held_back_) {
    input.release(held_back_->first);
    output_gradient.release(held_back_->second);
    held_back_.reset();
  }
  forwarded_ = completed_ = 0;
  step_ = commit.step + 1;
  ask_snapshot(commit);
}

// A replacement repeats micro-batches whose inputs the failed incarnation had not released. Their
// gradients may have been sent already, so the sums may arrive before the repetition is done.
void Stage::abandon_step() {
  for (const auto& [micro_batch, flight] : in_flight_) input.release(flight.input);
  for (const GoingBack& back : going_back_) {
    input.release(back.forward.input);
    output_gradient.release(back.grad);
  }
  in_flight_.clear();
  going_back_.clear();
}

void Stage::ask_snapshot(const Commit& commit) {
  if (commit.snapshot && snapshot.connected())
    pending_snapshots_.emplace_back(commit.step, program().state());
}

ActionLabel Stage::send_snapshot() {
  const auto& [step, state] = pending_snapshots_.front();
  const MessageKey key{step, Purpose::train, static_cast<std::uint32_t>(options_.stage)};
  snapshot.send({.key = key}, {options_.stage, state, program().spec()});
  pending_snapshots_.pop_front();
  return {"S", key};
}

void Stage::restore(const CommittedState& state, std::uint32_t steps) {
  resumed_ = std::static_pointer_cast<const StateVersion>(state);
  if (!resumed_ && options_.starting_state) resumed_ = starting_state();
  program_.reset();
  step_ = steps;
}

Waiting Stage::waiting() const {
  // A backward that has begun has taken its gradient already.
  const bool has_work = !going_back_.empty() || input.ready() || output_gradient.ready();
  if (!has_work) return Waiting::input;
  const auto full = [](const auto& port) { return !port->has_slot(); };
  if (!output.has_slot() || !input_gradient.has_slot() || !gradient.has_slot() ||
      std::ranges::any_of(more_gradients_, full) || in_flight() >= options_.schedule.credits)
    return Waiting::credit;
  return Waiting::other;  // for the commit
}

std::string Stage::gap_between(std::size_t end, std::size_t begin) {
  if (end == begin) return {};
  const auto [first, last] = std::minmax(end, begin);
  const std::string blocks = last - first == 1 ? fmt::format("block {} is", first)
                                               : fmt::format("blocks {}-{} are", first, last - 1);
  return blocks + (end < begin ? " missing between them" : " on both sides");
}

// Other senders may stand between two stages: only they know what they send.
std::string Stage::refusal(const InputPort& port, const Actor& sender) const {
  if (&port != &input || !part()) return {};
  if (dynamic_cast<const Loader*>(&sender)) return gap_between(0, part()->blocks.first);
  const auto* before = dynamic_cast<const Stage*>(&sender);
  return before && before->part() ? gap_between(before->part()->blocks.last, part()->blocks.first)
                                  : std::string();
}

FiringRules Stage::firing_rules() const {
  const StageSchedule& schedule = options_.schedule;
  const std::uint32_t credits = schedule.credits;
  const Transition forward{.name = "F", .takes = {{&input}}, .releases = {}, .fills = {{&output}}};
  std::vector<Transition::Out> gradients{{&gradient}};
  for (const auto& port : more_gradients_) gradients.push_back({port.get()});
  const std::vector<Transition::In> given_back{{&output_gradient}, {&input}};
  if (schedule.deferred_weight_gradients)
    return {.transitions = {forward,
                            {.name = "B",
                             .takes = {{&output_gradient}},
                             .releases = {},
                             .fills = {{&input_gradient}}},
                            {.name = "W", .takes = {}, .releases = given_back, .fills = gradients}},
            .internal_places = {{0, 1, 1, 1, credits}, {1, 2, 1, 1, schedule.max_deferred()}}};
  gradients.push_back({&input_gradient});
  const Transition backward{
      .name = "B", .takes = {{&output_gradient}}, .releases = given_back, .fills = gradients};
  if (!schedule.flush_before_backward)
    return {.transitions = {forward, backward}, .internal_places = {{0, 1, 1, 1, credits}}};
  // All forwards of a step are one bundle that must be whole before the first backward.
  return {.transitions = {forward,
                          {.name = "flush", .takes = {}, .releases = {}, .fills = {}},
                          backward},
          .internal_places = {{0, 1, 1, credits, credits}, {1, 2, credits, 1, credits}}};
}

}  // namespace troupe

#include "ops/nn/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "ops/backend.h"
#include "ops/gpu_factors.h"
#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe {
namespace {

Pass writing_to(Pass pass, std::span<Tensor> gradients, std::span<Tensor> statistics) {
  pass.weight_gradients = gradients;
  pass.statistics = statistics;
  return pass;
}

void check_device(const StateVersion& state, Device device) {
  if (state.weights.device() == device) return;
  throw Error(ErrorCode::internal,
              fmt::format("the state is on {}, but the network on {}",
                          to_string(state.weights.device()), to_string(device)),
              "copy it there with on_device");
}

void check_flat(std::string_view what, const Tensor& tensor, std::int64_t elements, DType dtype) {
  if (tensor.defined() && tensor.shape() == Shape{elements} && tensor.dtype() == dtype) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{} of a network must be {} [{}], not {} {}", what, name_of(dtype),
                          elements, name_of(tensor.dtype()), to_string(tensor.shape())),
              "give what was made for the same blocks and precision");
}

}  // namespace

ForwardPass::ForwardPass(const StateSpec& spec, std::shared_ptr<const StateViews> from,
                         const Pass& pass)
    : views(std::move(from)),
      statistics(zeros(pass.stream, Shape{spec.buffer_elements()}, pass.dtype)),
      gradient_views(spec.parameters().size()),
      statistic_views(spec.buffer_views(statistics)),
      tape(writing_to(pass, gradient_views, statistic_views)) {}

Tensor ForwardPass::take_result() {
  Tensor taken = result();
  tape.seal();
  return taken;
}

Network::Network(Model model, const std::vector<BlockRange>& ranges, DType dtype, Stream stream)
    : dtype_(dtype), stream_(stream) {
  check_products(stream_);
  const auto here = [&] {
    return BlockBegin{spec_.parameters().size(), spec_.parameter_elements()};
  };
  std::size_t end = 0;  // of the range before
  for (const auto& [first, last] : ranges) {
    if (first < end || first >= last || last > model.blocks.size())
      throw Error(ErrorCode::bad_graph,
                  fmt::format("a stage of blocks [{}, {}) of {}, which has {}", first, last,
                              model.name, model.blocks.size()));
    ranges_.push_back({blocks_.size(), blocks_.size() + last - first});
    for (std::size_t i = first; i < last; ++i) {
      begins_.push_back(here());
      model.blocks[i]->declare(spec_);
      blocks_.push_back(std::move(model.blocks[i]));
    }
    end = last;
  }
  begins_.push_back(here());
  freeze([](std::string_view) { return false; });
}

void Network::freeze(const Freezes& freezes) {
  spec_.freeze(freezes);
  frozen_.clear();
  for (const ParameterSpec& parameter : spec_.parameters()) frozen_.push_back(parameter.frozen);
}

void Network::use(StatePtr state) {
  if (views_->state == state) return;
  check_flat("the weights", state->weights, spec_.parameter_elements(), dtype_);
  check_flat("the buffers", state->buffers, spec_.buffer_elements(), dtype_);
  check_device(*state, stream_.device);
  auto views = std::make_shared<StateViews>();
  views->weights = spec_.parameter_views(placed(state->weights, weights_place_));
  views->buffers = spec_.buffer_views(placed(state->buffers, buffers_place_));
  for (const NamedTensor& kept : state->optimizer_state)
    if (kept.name == average_name)
      views->averages = spec_.parameter_views(placed(kept.tensor, average_place_));
  views->version = views_->version + 1;
  views->state = std::move(state);
  views_ = std::move(views);
}

// What reads the tensor: itself, or the place that keeps it.
const Tensor& Network::placed(const Tensor& from, Tensor& place) const {
  if (!keeps_in_place_) return from;
  if (!place.defined()) place = Tensor::empty(from.shape(), from.dtype(), from.device());
  kernels(stream_.device, dtype_).copy(stream_, from, place);
  return place;
}

// With tensor cores, convolutions want nhwc and the type that they multiply. They would reorder and
// round the images themselves, to the same bits.
void Network::take_pixels(const Tensor& values) {
  const DType factors = factor_type(stream_, dtype_);
  const bool for_convolution = uses_tensor_cores(stream_, factors) &&
                               blocks_[ranges_.front().first]->begins_with_convolution();
  const bool has_tensors = backend(stream_.device).kernels(factors) != nullptr;
  pixel_layout_ = for_convolution ? Layout::nhwc : Layout::row_major;
  pixel_values_on_cpu_ = values;
  pixel_values_ = on_device(stream_, values, for_convolution && has_tensors ? factors : dtype_);
}

Tensor Network::numbers_of(const Tensor& pixels) const {
  if (!pixel_values_.defined())
    throw Error(
        ErrorCode::bad_options, "a network got bytes, and does not know what they stand for",
        "give NetworkProgramOptions the pixels of the loader's TransformOptions, or these the CPU "
        "as their device");
  return kernels(stream_.device, dtype_)
      .look_up(stream_, on_device(stream_, pixels), pixel_values_, pixel_layout_);
}

// The input on the stream's device, which the pass then knows. Indices stay as they are.
Tensor Network::taken(const Tensor& x, Pass& pass) const {
  const bool pixels = x.dtype() == DType::u8;
  // Those of 16 bits are what an earlier stage has made on the device.
  const bool converted =
      is_floating(x.dtype()) && !(is_narrow(x.dtype()) && x.device() != Device::cpu());
  Tensor there = pixels      ? numbers_of(x)
                 : converted ? on_device(stream_, x, dtype_)
                             : on_device(stream_, x);
  if (x.device() == Device::cpu() && stream_.device != Device::cpu()) {
    pass.input_on_cpu = x;
    pass.input_copy = there.storage();
    if (pixels) pass.pixel_values = pixel_values_on_cpu_;
  }
  return there;
}

Pass Network::make_pass(bool training, const RandomKey& random) const {
  if (!views_->state) throw Error(ErrorCode::internal, "a network ran before it was given a state");
  Pass pass;
  pass.stream = stream_;
  pass.dtype = dtype_;
  pass.training = training;
  pass.random = random;
  const bool average = !training && evaluates_average();
  pass.weights_version = 2 * views_->version + (average ? 1 : 0);
  pass.weights = average ? views_->averages : views_->weights;
  pass.buffers = views_->buffers;
  pass.frozen = frozen_;
  return pass;
}

std::unique_ptr<ForwardPass> Network::forward(const Tensor& x, const RandomKey& random,
                                              bool wants_input_gradient, std::size_t range) {
  Pass training = make_pass(true, random);
  Tensor input = taken(x, training);
  auto pass = std::make_unique<ForwardPass>(spec_, views_, std::move(training));
  pass->input_dtype = x.dtype() == DType::u8 ? dtype_ : x.dtype();
  Value value = pass->tape.input(std::move(input), wants_input_gradient);
  pass->blocks = ranges_.at(range);
  for (std::size_t b = pass->blocks.first; b < pass->blocks.last; ++b) {
    pass->marks.push_back(pass->tape.recorded());
    value = blocks_[b]->forward(pass->tape, value);
    pass->tape.seal(value);
  }
  pass->blocks_left = pass->blocks.last;
  pass->output = value;
  return pass;
}

Tensor Network::backward(ForwardPass& pass, const Tensor& grad) {
  begin_backward(pass, grad);
  pass.gradients = backward_to(pass, pass.blocks.first);
  return end_backward(pass);
}

void Network::begin_backward(ForwardPass& pass, const Tensor& grad) {
  pass.tape.begin_backward(pass.output, on_device(stream_, grad));
}

Tensor Network::backward_to(ForwardPass& pass, std::size_t block) {
  Tensor gradients = make_views(pass, block, pass.blocks_left);
  pass.tape.backward_to(pass.marks.at(block - pass.blocks.first));
  drop_views(pass, block, pass.blocks_left);
  pass.blocks_left = block;
  return gradients;
}

Tensor Network::end_backward(ForwardPass& pass) { return returned(pass, pass.tape.end_backward()); }

Tensor Network::backward_inputs(ForwardPass& pass, const Tensor& grad) {
  return returned(pass, pass.tape.backward_inputs(pass.output, on_device(stream_, grad)));
}

void Network::backward_weights(ForwardPass& pass) {
  pass.gradients = backward_to(pass, pass.blocks.first);
}

// A primitive with parameters that are trained writes all of its own gradients, so only others and
// what lies between them need zeroes.
Tensor Network::make_views(ForwardPass& pass, std::size_t first_block,
                           std::size_t last_block) const {
  const BlockBegin &from = begins_[first_block], &to = begins_[last_block];
  Tensor gradients = Tensor::empty(Shape{to.element - from.element}, dtype_, stream_.device);
  spec_.clear_padding(stream_, gradients, from.element);
  for (std::size_t p = from.parameter; p < to.parameter; ++p) {  // the pass refers to these
    const ParameterSpec& parameter = spec_.parameters()[p];
    Tensor view =
        gradients.narrow(parameter.offset - from.element, parameter.shape.element_count());
    if (parameter.frozen) kernels(stream_.device, dtype_).fill(stream_, 0.0, view);
    pass.gradient_views[p] = view.reshape(parameter.shape);
  }
  return gradients;
}

// The caller that gets the gradients of these blocks decides how long they stay.
void Network::drop_views(ForwardPass& pass, std::size_t first_block, std::size_t last_block) const {
  for (std::size_t p = begins_[first_block].parameter; p < begins_[last_block].parameter; ++p)
    pass.gradient_views[p] = {};
}

Tensor Network::returned(const ForwardPass& pass, std::vector<Tensor> gradients) const {
  return gradients.empty() ? Tensor() : on_device(stream_, gradients.front(), pass.input_dtype);
}

Tensor Network::evaluate(const Tensor& x, std::size_t range) {
  Pass evaluation = make_pass(false, {});
  Tensor result = taken(x, evaluation);
  const auto [first, last] = ranges_.at(range);
  for (std::size_t b = first; b < last; ++b) {  // a tape a block: what lies before it is freed
    Tape tape(evaluation);
    const Value value = tape.input(std::move(result), false);
    result = tape.tensor(blocks_[b]->forward(tape, value));
  }
  return result;
}

void Network::check_gradients(const std::vector<Tensor>& gradients) const {
  const std::int64_t expected = spec_.parameter_elements();
  if (gradients.size() == 1) check_flat("the gradient", gradients[0], expected, dtype_);
  std::int64_t elements = 0;
  for (const Tensor& part : gradients) {
    const std::int64_t count = part.defined() ? part.element_count() : 0;
    check_flat("a part of the gradient", part, count, dtype_);
    elements += count;
  }
  if (!gradients.empty() && elements != expected)
    throw Error(ErrorCode::bad_shape,
                fmt::format("the gradient of a network has {} elements in {} parts, its weights {}",
                            elements, gradients.size(), expected),
                "give a part for each of its buckets");
}

namespace {

/// The same-named tensor of each of `names`; undefined where the state has none.
std::vector<Tensor> optimizer_state(const StateVersion& state,
                                    const std::vector<std::string>& names) {
  std::vector<Tensor> result(names.size());
  for (std::size_t i = 0; i < names.size(); ++i)
    for (const NamedTensor& kept : state.optimizer_state)
      if (kept.name == names[i]) result[i] = kept.tensor;
  return result;
}

/// The part of each state tensor that an optimizer with the state tensors `wanted` reads or writes.
std::vector<Tensor> parts_of(const std::vector<std::string>& names,
                             const std::vector<Tensor>& tensors,
                             const std::vector<std::string>& wanted, std::int64_t begin,
                             std::int64_t count) {
  std::vector<Tensor> parts;
  for (const std::string& name : wanted) {
    const auto place = std::ranges::find(names, name) - names.begin();
    const Tensor& tensor = tensors[static_cast<std::size_t>(place)];
    parts.push_back(tensor.defined() ? tensor.narrow(begin, count) : Tensor());
  }
  return parts;
}

/// The state tensors that an optimizer with the state tensors `own` leaves zero.
std::vector<std::string> others(std::vector<std::string> names,
                                const std::vector<std::string>& own) {
  std::erase_if(names, [&](const std::string& name) {
    return name == average_name || std::ranges::find(own, name) != own.end();
  });
  return names;
}

/// Consecutive parameters of one group: the elements from `begin` to the next run.
struct GroupRun {
  const ParameterGroup* group;
  bool frozen;
  std::int64_t begin;
};

std::vector<GroupRun> group_runs(const Optimizer& optimizer, const StateSpec& spec) {
  std::vector<GroupRun> runs;
  for (const ParameterSpec& parameter : spec.parameters()) {
    const ParameterGroup* group = optimizer.group_of(parameter.name);
    const bool frozen = parameter.frozen || (group && group->frozen);
    if (runs.empty() || runs.back().group != group || runs.back().frozen != frozen)
      runs.push_back({group, frozen, parameter.offset});
  }
  return runs;
}

}  // namespace

void Network::apply(const Optimizer& optimizer, const OptimizerStep& step,
                    const std::vector<Tensor>& gradients, StateVersion& next) const {
  const StateVersion& now = *views_->state;
  const std::vector<std::string> names = optimizer.state_names();
  const std::vector<Tensor> state = optimizer_state(now, names);
  next.weights = Tensor::empty(now.weights.shape(), dtype_, stream_.device);
  next.optimizer_state.clear();
  std::vector<Tensor> new_state;
  for (const std::string& name : names) {
    new_state.push_back(Tensor::empty(now.weights.shape(), dtype_, stream_.device));
    next.optimizer_state.push_back({name, new_state.back()});
  }
  const KernelTable& table = kernels(stream_.device, dtype_);
  std::deque<std::vector<Tensor>> parts;  // what `updates` refers to
  std::vector<UpdateBy<Optimizer>> updates;
  const auto update = [&](const GroupRun& run, std::int64_t begin, const Tensor& gradient) {
    const std::int64_t count = gradient.element_count();
    const Optimizer& rule = run.group ? run.group->optimizer : optimizer;
    const std::vector<std::string> own = rule.own_state_names();
    for (Tensor& unused : parts_of(names, new_state, others(names, own), begin, count))
      table.fill(stream_, 0.0, unused);
    std::vector<Tensor>& new_parts =
        parts.emplace_back(parts_of(names, new_state, own, begin, count));
    if (run.frozen) {  // kept as they are, infinite ones too
      Tensor kept = next.weights.narrow(begin, count);
      table.copy(stream_, now.weights.narrow(begin, count), kept);
      for (Tensor& part : new_parts) table.fill(stream_, 0.0, part);
      return;
    }
    const double lr = run.group ? run.group->lr.value_or(step.lr) : step.lr;
    updates.push_back(
        {.rule = rule,
         .step = {.updates = step.updates, .lr = lr, .scaling = step.scaling},
         .slice = {.weights = now.weights.narrow(begin, count),
                   .gradient = gradient,
                   .state = parts.emplace_back(parts_of(names, state, own, begin, count)),
                   .new_weights = next.weights.narrow(begin, count),
                   .new_state = new_parts}});
  };
  const auto update_all = [&] {
    if (!updates.empty()) optimizer.update_all(stream_, updates);
    updates.clear();
    parts.clear();
  };
  const std::vector<GroupRun> runs = group_runs(optimizer, spec_);
  std::int64_t end = spec_.parameter_elements();
  for (const Tensor& part : gradients) {
    const Tensor gradient = on_device(stream_, part);
    const std::int64_t begin = end - gradient.element_count();
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const std::int64_t first = std::max(begin, runs[r].begin);
      const std::int64_t last = r + 1 < runs.size() ? std::min(end, runs[r + 1].begin) : end;
      if (first < last) update(runs[r], first, gradient.narrow(first - begin, last - first));
    }
    end = begin;
    // A copy is given back before the next bucket is copied.
    if (part.device() != stream_.device) update_all();
  }
  update_all();
  if (!optimizer.keeps_zeroes()) spec_.clear_padding(stream_, next.weights);
  if (optimizer.average_decay() > 0) average(optimizer.average_decay(), next);
}

// Begins with the weights of the first update.
void Network::average(double decay, StateVersion& next) const {
  const KernelTable& table = kernels(stream_.device, dtype_);
  const Tensor before = optimizer_state(*views_->state, {std::string(average_name)}).front();
  Tensor after = optimizer_state(next, {std::string(average_name)}).front();
  table.copy(stream_, before.defined() ? before : next.weights, after);
  if (before.defined()) table.fold(stream_, next.weights, 1 - decay, after);
}

Tensor Network::gradient_squares(const Optimizer& optimizer,
                                 const std::vector<Tensor>& gradients) const {
  check_gradients(gradients);
  const auto& parameters = spec_.parameters();
  const Shape shape{std::ssize(parameters)};
  if (gradients.empty()) return Tensor::zeros(shape, DType::f64);
  std::vector<Tensor> counted(parameters.size());  // empty ones: frozen
  std::size_t p = parameters.size();
  std::int64_t begin = spec_.parameter_elements();
  for (const Tensor& part : gradients) {
    const Tensor gradient = on_device(stream_, part);
    begin -= gradient.element_count();
    for (; p > 0 && parameters[p - 1].offset >= begin; --p) {
      const ParameterSpec& own = parameters[p - 1];
      const bool frozen = own.frozen || optimizer.freezes(own.name);
      counted[p - 1] = gradient.narrow(own.offset - begin, frozen ? 0 : own.shape.element_count());
    }
  }
  Tensor squares = Tensor::empty(shape, DType::f64, stream_.device);
  kernels(stream_.device, dtype_).square_sums(stream_, counted, squares);
  return to_cpu(stream_, squares);
}

void Network::fold(const std::vector<Tensor>& statistics, const Tensor& running) const {
  const KernelTable& table = kernels(stream_.device, dtype_);
  const auto& buffers = spec_.buffers();
  const bool alike = std::ranges::all_of(buffers, [&](const BufferSpec& buffer) {
    return buffer.momentum == buffers.front().momentum;
  });
  auto into = spec_.buffer_views(running);
  Tensor all = running;
  for (const Tensor& observed : statistics) {
    const Tensor there = on_device(stream_, observed);
    if (alike && !buffers.empty()) {  // one kernel; the zeroes between them stay zeroes
      table.fold(stream_, there, buffers.front().momentum, all);
      continue;
    }
    const auto seen = spec_.buffer_views(there);
    for (std::size_t i = 0; i < into.size(); ++i)
      table.fold(stream_, seen[i], buffers[i].momentum, into[i]);
  }
}

StatePtr Network::step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                       const std::vector<Tensor>& statistics) const {
  const StateVersion& now = *views_->state;
  check_gradients(gradients);
  for (const Tensor& observed : statistics)
    check_flat("the statistics", observed, spec_.buffer_elements(), dtype_);
  auto next = std::make_shared<StateVersion>(now);
  next->step = now.step + 1;
  if (!gradients.empty()) {
    const OptimizerStep update{
        .updates = now.updates, .lr = lr, .scaling = optimizer.gradient_scaling()};
    apply(optimizer, update, gradients, *next);
    ++next->updates;
  }
  if (!statistics.empty()) {
    next->buffers = Tensor::empty(now.buffers.shape(), dtype_, stream_.device);
    kernels(stream_.device, dtype_).copy(stream_, now.buffers, next->buffers);
    fold(statistics, next->buffers);
  }
  for (std::int64_t& counter : next->counters)
    counter += static_cast<std::int64_t>(statistics.size());
  return next;
}

}  // namespace troupe

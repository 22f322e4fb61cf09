#include "ops/nn/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/on_device.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "runtime/tensor/cast.h"

namespace troupe {
namespace {

constexpr std::int64_t alignment_elements = 16;

std::int64_t padded(std::int64_t elements) {
  return (elements + alignment_elements - 1) / alignment_elements * alignment_elements;
}

template <class Spec>
std::vector<Tensor> views(const std::vector<Spec>& specs, const Tensor& flat) {
  std::vector<Tensor> result;
  result.reserve(specs.size());
  for (const Spec& spec : specs) {
    const std::int64_t count = spec.shape.element_count();
    result.push_back(flat.narrow(spec.offset, count).reshape(spec.shape));
  }
  return result;
}

// U(-bound, bound) in f32: element e is random number e of the key that the name makes.
template <class T>
void fill_uniform(const ParameterSpec& spec, std::uint64_t seed, const Tensor& flat) {
  const RandomKey key{.seed = seed, .operation = operation_id(spec.name)};
  const auto bound = static_cast<float>(spec.initializer.value);
  T* values = flat.data<T>() + spec.offset;
  const std::int64_t count = spec.shape.element_count();
  for (std::int64_t e = 0; e < count; e += 4) {
    const auto numbers = key.block(static_cast<std::uint32_t>(e / 4));
    for (std::int64_t lane = 0; lane < std::min<std::int64_t>(4, count - e); ++lane)
      values[e + lane] = static_cast<T>(
          (2.0f * uniform_float(numbers[static_cast<std::size_t>(lane)]) - 1.0f) * bound);
  }
}

// N(0, deviation^2), computed in f64 and rounded to f32: element e is number e of the key.
template <class T>
void fill_normal(const ParameterSpec& spec, std::uint64_t seed, const Tensor& flat) {
  const RandomKey key{.seed = seed, .operation = operation_id(spec.name)};
  T* values = flat.data<T>() + spec.offset;
  const std::int64_t count = spec.shape.element_count();
  for (std::int64_t e = 0; e < count; e += 4) {
    const auto numbers = normal_numbers(key.block(static_cast<std::uint32_t>(e / 4)));
    for (std::int64_t lane = 0; lane < std::min<std::int64_t>(4, count - e); ++lane)
      values[e + lane] = static_cast<T>(
          static_cast<float>(numbers[static_cast<std::size_t>(lane)] * spec.initializer.value));
  }
}

/// The tensor that `read` gives, converted and copied to elements of `flat` from `offset` on.
void copy_given(const std::string& name, const std::function<Tensor()>& read, const Shape& shape,
                std::int64_t offset, const Tensor& flat) {
  const Tensor given = read();
  if (given.shape() != shape || !is_floating(given.dtype()))
    throw Error(ErrorCode::bad_file,
                fmt::format("the initial value of {} is {} {}, not {}", name,
                            name_of(given.dtype()), to_string(given.shape()), to_string(shape)),
                "the file was changed while it was read, or is damaged");
  const Tensor converted = cast(given, flat.dtype());
  std::memcpy(flat.raw() + static_cast<std::size_t>(offset) * size_of(flat.dtype()),
              converted.raw(), converted.bytes());
}

template <class T>
void fill_parameter(const ParameterSpec& parameter, std::uint64_t seed, const Tensor& weights) {
  const Initializer& initializer = parameter.initializer;
  switch (initializer.kind) {
    case Initializer::Kind::uniform:
      return fill_uniform<T>(parameter, seed, weights);
    case Initializer::Kind::normal:
      return fill_normal<T>(parameter, seed, weights);
    case Initializer::Kind::given:
      return copy_given(parameter.name, initializer.read, parameter.shape, parameter.offset,
                        weights);
    case Initializer::Kind::constant:
      std::fill_n(weights.data<T>() + parameter.offset, parameter.shape.element_count(),
                  static_cast<T>(static_cast<float>(initializer.value)));
  }
}

template <class T>
void fill(const StateSpec& spec, std::uint64_t seed, StateVersion& state) {
  for (const ParameterSpec& parameter : spec.parameters())
    fill_parameter<T>(parameter, seed, state.weights);
  for (const BufferSpec& buffer : spec.buffers())
    if (buffer.read)
      copy_given(buffer.name, buffer.read, buffer.shape, buffer.offset, state.buffers);
    else
      std::fill_n(state.buffers.data<T>() + buffer.offset, buffer.shape.element_count(),
                  static_cast<T>(buffer.initial));
}

std::int64_t first_count(const CounterSpec& counter) {
  if (!counter.read) return 0;
  const Tensor given = counter.read();
  if (given.dtype() != DType::i64 || given.element_count() != 1)
    throw Error(ErrorCode::bad_file, fmt::format("{} is not a count", counter.name),
                "the file was changed while it was read, or is damaged");
  return *given.data<std::int64_t>();
}

}  // namespace

void StateSpec::add_name(const std::string& name) {
  if (!names_.insert(name).second)
    throw Error(ErrorCode::bad_options, fmt::format("two tensors of the model are called {}", name),
                "give every module of the model a name of its own");
}

ParameterIndex StateSpec::add_parameter(std::string name, Shape shape, Initializer initializer,
                                        bool frozen) {
  add_name(name);
  parameters_.push_back(
      {std::move(name), shape, std::move(initializer), parameter_elements_, frozen});
  parameter_elements_ += padded(shape.element_count());
  return {static_cast<int>(parameters_.size()) - 1};
}

void StateSpec::freeze(const Freezes& freezes) {
  for (ParameterSpec& parameter : parameters_)
    parameter.frozen = parameter.frozen || freezes(parameter.name);
}

BufferIndex StateSpec::add_buffer(std::string name, Shape shape, double initial, double momentum,
                                  std::function<Tensor()> read) {
  add_name(name);
  buffers_.push_back(
      {std::move(name), shape, initial, momentum, buffer_elements_, std::move(read)});
  buffer_elements_ += padded(shape.element_count());
  return {static_cast<int>(buffers_.size()) - 1};
}

void StateSpec::add_counter(std::string name, std::function<Tensor()> read) {
  add_name(name);
  counters_.push_back({std::move(name), std::move(read)});
}

void StateSpec::add_alias(std::string name, ParameterIndex of) {
  add_name(name);
  aliases_.push_back({std::move(name), of});
}

void StateSpec::add_constant(ConstantSpec constant) {
  add_name(constant.name);
  constants_.push_back(std::move(constant));
}

std::int64_t StateSpec::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : parameters_) count += parameter.shape.element_count();
  return count;
}

void StateSpec::clear_padding(const Stream& stream, Tensor& flat, std::int64_t begin) const {
  const std::int64_t end = begin + flat.element_count();
  for (const ParameterSpec& parameter : parameters_) {
    if (parameter.offset < begin || parameter.offset >= end) continue;
    const std::int64_t count = parameter.shape.element_count();
    if (count == padded(count)) continue;
    Tensor between = flat.narrow(parameter.offset - begin + count, padded(count) - count);
    kernels(stream.device, flat.dtype()).fill(stream, 0.0, between);
  }
}

std::vector<Tensor> StateSpec::parameter_views(const Tensor& flat) const {
  return views(parameters_, flat);
}

std::vector<Tensor> StateSpec::buffer_views(const Tensor& flat) const {
  return views(buffers_, flat);
}

namespace {

StatePtr moved(const StatePtr& state, Device to, const auto& move) {
  if (!state || state->weights.device() == to) return state;
  auto result = std::make_shared<StateVersion>(*state);
  result->weights = move(state->weights);
  result->buffers = move(state->buffers);
  for (NamedTensor& kept : result->optimizer_state) kept.tensor = move(kept.tensor);
  return result;
}

}  // namespace

StatePtr on_device(const Stream& stream, const StatePtr& state) {
  return moved(state, stream.device, [&](const Tensor& t) { return on_device(stream, t); });
}

StatePtr on_cpu(const Stream& stream, const StatePtr& state) {
  return moved(state, Device::cpu(), [&](const Tensor& t) { return on_cpu(stream, t); });
}

StatePtr initial_state(const StateSpec& spec, DType dtype, std::uint64_t seed) {
  auto state = std::make_shared<StateVersion>();
  state->weights = Tensor::zeros(Shape{spec.parameter_elements()}, dtype);
  state->buffers = Tensor::zeros(Shape{spec.buffer_elements()}, dtype);
  for (const CounterSpec& counter : spec.counters())
    state->counters.push_back(first_count(counter));
  for (const ConstantSpec& constant : spec.constants()) state->constants.push_back(constant.value);
  dtype == DType::f64 ? fill<double>(spec, seed, *state) : fill<float>(spec, seed, *state);
  return state;
}

}  // namespace troupe

// A state by the names of PyTorch's state_dict: what checkpoints and exports read and write.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ops/nn/state.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::string_view momentum_prefix = "optimizer.momentum.";
constexpr std::string_view optimizer_prefix = "optimizer.";

// Takes tensors by name and remembers what did not fit, for one message about all of it.
class Taker {
 public:
  explicit Taker(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& named : tensors) found_.emplace(named.name, &named.tensor);
  }

  bool has(const std::string& name) const { return found_.count(name) > 0; }

  void take(const std::string& name, const Shape& shape, const Tensor& into) {
    const Tensor* tensor = find(name, shape);
    if (!tensor) return;
    if (!is_floating(tensor->dtype())) {
      wrong_.push_back(fmt::format("{} is {}", name, name_of(tensor->dtype())));
      return;
    }
    const Tensor converted = cast(*tensor, into.dtype());
    std::memcpy(into.raw(), converted.raw(), into.bytes());
  }

  std::int64_t take_counter(const std::string& name) {
    const Tensor* tensor = find(name, Shape{});
    if (!tensor) return 0;
    if (tensor->dtype() == DType::i64) return *tensor->data<std::int64_t>();
    wrong_.push_back(fmt::format("{} is {}, not i64", name, name_of(tensor->dtype())));
    return 0;
  }

  void finish(bool strict, bool with_optimizer) {
    std::vector<std::string> unexpected;
    for (const auto& [name, tensor] : found_)
      if (with_optimizer || !name.starts_with(optimizer_prefix)) unexpected.push_back(name);
    std::sort(unexpected.begin(), unexpected.end());
    if (!strict) unexpected.clear();
    if (missing_.empty() && wrong_.empty() && unexpected.empty()) return;
    std::string message = "the weights are of another model:";
    append(message, "missing", missing_);
    append(message, "that do not fit", wrong_);
    append(message, "not asked for", unexpected);
    throw Error(ErrorCode::bad_file, message,
                "give the options of the model that the file was made with");
  }

 private:
  const Tensor* find(const std::string& name, const Shape& shape) {
    const auto entry = found_.find(name);
    if (entry == found_.end()) {
      missing_.push_back(name);
      return nullptr;
    }
    const Tensor* tensor = entry->second;
    found_.erase(entry);
    if (tensor->shape() == shape || (shape.rank() == 0 && tensor->element_count() == 1))
      return tensor;
    wrong_.push_back(fmt::format("{} is {}, the model's {}", name, to_string(tensor->shape()),
                                 to_string(shape)));
    return nullptr;
  }

  static void append(std::string& message, std::string_view what,
                     const std::vector<std::string>& names) {
    if (names.empty()) return;
    constexpr std::size_t shown = 2;  // the others are of the same kind
    message += fmt::format("{} {} {} ({})", message.ends_with(':') ? "" : ",", names.size(), what,
                           listed(names, shown));
  }

  std::unordered_map<std::string, const Tensor*> found_;
  std::vector<std::string> missing_, wrong_;
};

}  // namespace

std::vector<NamedTensor> named_tensors(const StateSpec& spec, const StateVersion& state,
                                       bool with_optimizer) {
  std::vector<NamedTensor> result;
  const auto weights = spec.parameter_views(state.weights);
  const auto buffers = spec.buffer_views(state.buffers);
  for (std::size_t i = 0; i < weights.size(); ++i)
    result.push_back({spec.parameters()[i].name, weights[i]});
  for (std::size_t i = 0; i < buffers.size(); ++i)
    result.push_back({spec.buffers()[i].name, buffers[i]});
  for (std::size_t i = 0; i < spec.counters().size(); ++i)
    result.push_back({spec.counters()[i],
                      Tensor::from<std::int64_t>(Shape{}, std::span(&state.counters[i], 1))});
  if (with_optimizer && state.momentum.defined()) {
    const auto momentum = spec.parameter_views(state.momentum);
    for (std::size_t i = 0; i < momentum.size(); ++i)
      result.push_back({std::string(momentum_prefix) + spec.parameters()[i].name, momentum[i]});
  }
  return result;
}

std::vector<std::string> tensor_names(const StateSpec& spec, bool with_optimizer) {
  std::vector<std::string> names;
  for (const auto& parameter : spec.parameters()) {
    names.push_back(parameter.name);
    if (with_optimizer) names.push_back(std::string(momentum_prefix) + parameter.name);
  }
  for (const auto& buffer : spec.buffers()) names.push_back(buffer.name);
  names.insert(names.end(), spec.counters().begin(), spec.counters().end());
  return names;
}

StatePtr state_from(const StateSpec& spec, DType dtype, const std::vector<NamedTensor>& tensors,
                    std::int64_t step, bool with_optimizer, bool strict) {
  Taker taker(tensors);
  auto state = std::make_shared<StateVersion>();
  state->step = step;
  state->weights = Tensor::zeros(Shape{spec.parameter_elements()}, dtype);
  state->buffers = Tensor::zeros(Shape{spec.buffer_elements()}, dtype);
  const auto& parameters = spec.parameters();
  const auto weights = spec.parameter_views(state->weights);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    taker.take(parameters[i].name, parameters[i].shape, weights[i]);
  const auto buffers = spec.buffer_views(state->buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    taker.take(spec.buffers()[i].name, spec.buffers()[i].shape, buffers[i]);
  for (const std::string& counter : spec.counters())
    state->counters.push_back(taker.take_counter(counter));

  const auto momentum_name = [](const ParameterSpec& parameter) {
    return std::string(momentum_prefix) + parameter.name;
  };
  const bool momentum =
      with_optimizer && std::any_of(parameters.begin(), parameters.end(),
                                    [&](const auto& p) { return taker.has(momentum_name(p)); });
  if (momentum) {
    state->momentum = Tensor::zeros(Shape{spec.parameter_elements()}, dtype);
    const auto into = spec.parameter_views(state->momentum);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      taker.take(momentum_name(parameters[i]), parameters[i].shape, into[i]);
  }
  taker.finish(strict, with_optimizer);
  return state;
}

}  // namespace troupe

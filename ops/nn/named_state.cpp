// A state by the names of PyTorch's state_dict: what checkpoints and exports read and write.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "ops/nn/name_prefixes.h"
#include "ops/nn/state.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::string_view optimizer_prefix = "optimizer.";

std::string optimizer_name(std::string_view state, const ParameterSpec& parameter) {
  return fmt::format("{}{}.{}", optimizer_prefix, state, parameter.name);
}

// Ticks tensors off by name and remembers what does not fit, for one message about all of it.
class Checker {
 public:
  explicit Checker(const std::vector<TensorInfo>& tensors) {
    for (const TensorInfo& tensor : tensors) found_.emplace(tensor.name, &tensor);
  }

  void expect(const std::string& name, const Shape& shape) {
    const TensorInfo* tensor = find(name, shape);
    if (tensor && !is_floating(tensor->dtype))
      wrong_.push_back(fmt::format("{} is {}", name, name_of(tensor->dtype)));
  }

  void expect_counter(const std::string& name) {
    const TensorInfo* tensor = find(name, Shape{});
    if (tensor && tensor->dtype != DType::i64)
      wrong_.push_back(fmt::format("{} is {}, not i64", name, name_of(tensor->dtype)));
  }

  /// Whether the file has the constant, and in the form of the model.
  bool allow(const ConstantSpec& constant) {
    const std::string& name = constant.name;
    if (!found_.contains(name)) return false;
    const TensorInfo* tensor = find(name, constant.value.shape());
    if (!tensor) return false;
    const DType wanted = constant.value.dtype();
    if (tensor->dtype == wanted || (is_floating(tensor->dtype) && is_floating(wanted))) return true;
    wrong_.push_back(
        fmt::format("{} is {}, not {}", name, name_of(tensor->dtype), name_of(wanted)));
    return false;
  }
  void add_other_value(const std::string& name) { other_values_.push_back(name); }

  void finish(bool strict) {
    std::vector<std::string> unexpected;
    for (const auto& [name, tensor] : found_)
      if (!name.starts_with(optimizer_prefix)) unexpected.emplace_back(name);
    std::sort(unexpected.begin(), unexpected.end());
    if (!strict) unexpected.clear();
    const bool fits = missing_.empty() && wrong_.empty() && unexpected.empty();
    if (fits && other_values_.empty()) return;
    const std::vector<std::string_view> surplus(unexpected.begin(), unexpected.end());
    std::string message = fmt::format("the weights belong to another model{}:",
                                      prefix_hint(surplus, {missing_.begin(), missing_.end()}));
    append(message, "missing", with_similar(missing_, unexpected, "the file"));
    append(message, "of another shape or type", wrong_);
    append(message, "unexpected", with_similar(unexpected, missing_, "the model"));
    append(message, "with other values than the constants of the graph", other_values_);
    throw Error(ErrorCode::other_model, message,
                fits ? "use the model file that the weights were trained with, or load them in "
                       "Python and export the model again"
                     : "create the model with the settings that wrote the file");
  }

 private:
  const TensorInfo* find(const std::string& name, const Shape& shape) {
    const auto entry = found_.find(name);
    if (entry == found_.end()) {
      missing_.push_back(name);
      return nullptr;
    }
    const TensorInfo* tensor = entry->second;
    found_.erase(entry);
    if (tensor->shape == shape || (shape.rank() == 0 && tensor->shape.element_count() == 1))
      return tensor;
    wrong_.push_back(fmt::format("{} has the shape {}, but in the model {}", name,
                                 to_string(tensor->shape), to_string(shape)));
    return nullptr;
  }

  static constexpr std::size_t shown = 4;

  /// The names that are shown, with the name that such a tensor probably has on the other side.
  static std::vector<std::string> with_similar(const std::vector<std::string>& names,
                                               const std::vector<std::string>& others,
                                               std::string_view of_whom) {
    const std::vector<std::string_view> own(names.begin(), names.end());
    const std::vector<std::string_view> candidates(others.begin(), others.end());
    std::vector<std::string> result = names;
    for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
      if (const std::string similar = similar_name(own[i], candidates, own); !similar.empty())
        result[i] += fmt::format(" [like {} of {}]", similar, of_whom);
    return result;
  }
  static void append(std::string& message, std::string_view what,
                     const std::vector<std::string>& names) {
    if (names.empty()) return;
    message += fmt::format("{} {} {} ({})", message.ends_with(':') ? "" : ",", names.size(), what,
                           listed(names, shown));
  }

  std::unordered_map<std::string_view, const TensorInfo*> found_;
  std::vector<std::string> missing_, wrong_, other_values_;
};

/// Those of the optimizer's state tensors that the file has for some parameter.
std::vector<std::string> present(const std::vector<std::string>& optimizer_state,
                                 const StateSpec& spec, const std::vector<TensorInfo>& tensors) {
  std::unordered_set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.insert(tensor.name);
  std::vector<std::string> result;
  for (const std::string& state : optimizer_state)
    if (std::ranges::any_of(spec.parameters(), [&](const ParameterSpec& parameter) {
          return names.contains(optimizer_name(state, parameter));
        }))
      result.push_back(state);
  return result;
}

std::unordered_set<std::string_view> names_of(const StateSpec& spec) {
  std::unordered_set<std::string_view> names;
  for (const auto& parameter : spec.parameters()) names.insert(parameter.name);
  for (const auto& buffer : spec.buffers()) names.insert(buffer.name);
  for (const auto& alias : spec.aliases()) names.insert(alias.name);
  return names;
}

/// The modules, such as "module.model.", behind which the most tensors have names of the model.
/// Nothing if names fit as they are, or if several modules have as many.
std::string wrapper_of(const std::unordered_set<std::string_view>& names,
                       const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> given;
  for (const TensorInfo& tensor : tensors) {
    if (names.contains(tensor.name)) return {};
    given.emplace_back(tensor.name);
  }
  const auto fits = fitting_prefixes(given, names);
  const auto best =
      std::ranges::max_element(fits, {}, [](const auto& modules) { return modules.second; });
  const auto as_many = [&](const auto& modules) { return modules.second == best->second; };
  return std::ranges::count_if(fits, as_many) == 1 ? std::string(best->first) : std::string();
}

TensorSource without_wrapper(const StateSpec& spec, TensorSource source) {
  const std::string wrapper = wrapper_of(names_of(spec), source.tensors);
  if (wrapper.empty()) return source;
  std::unordered_set<std::string> given, unwrapped;
  for (const TensorInfo& tensor : source.tensors) given.insert(tensor.name);
  for (TensorInfo& tensor : source.tensors)
    if (tensor.name.starts_with(wrapper) && !given.contains(tensor.name.substr(wrapper.size())))
      unwrapped.insert(tensor.name.erase(0, wrapper.size()));
  source.read = [wrapper, unwrapped = std::move(unwrapped),
                 read = std::move(source.read)](const std::string& name) {
    return read(unwrapped.contains(name) ? wrapper + name : name);
  };
  return source;
}

/// Adds the model's counters to a file of this model that has none of them.
TensorSource with_counters(const StateSpec& spec, TensorSource source) {
  std::unordered_map<std::string, std::function<Tensor()>> counters;
  for (const CounterSpec& counter : spec.counters()) counters.emplace(counter.name, counter.read);
  const std::unordered_set<std::string_view> names = names_of(spec);
  const auto has_any = [&](const auto& of) {
    return std::ranges::any_of(source.tensors,
                               [&](const TensorInfo& tensor) { return of.contains(tensor.name); });
  };
  if (counters.empty() || has_any(counters) || !has_any(names)) return source;
  for (const CounterSpec& counter : spec.counters())
    source.tensors.push_back({counter.name, DType::i64, Shape{}});
  source.read = [counters = std::move(counters),
                 read = std::move(source.read)](const std::string& name) {
    const auto counter = counters.find(name);
    if (counter == counters.end()) return read(name);
    return counter->second ? counter->second() : Tensor::zeros(Shape{}, DType::i64);
  };
  return source;
}

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
    result.push_back({spec.counters()[i].name,
                      Tensor::from<std::int64_t>(Shape{}, std::span(&state.counters[i], 1))});
  for (const AliasSpec& alias : spec.aliases())
    result.push_back({alias.name, weights[static_cast<std::size_t>(alias.of.value)]});
  for (std::size_t i = 0; i < spec.constants().size(); ++i)
    result.push_back({spec.constants()[i].name, state.constants[i]});
  if (!with_optimizer) return result;
  for (const NamedTensor& kept : state.optimizer_state) {
    const auto parts = spec.parameter_views(kept.tensor);
    for (std::size_t i = 0; i < parts.size(); ++i)
      result.push_back({optimizer_name(kept.name, spec.parameters()[i]), parts[i]});
  }
  return result;
}

TensorSource by_own_names(const StateSpec& spec, TensorSource given) {
  TensorSource source = with_counters(spec, without_wrapper(spec, std::move(given)));
  if (spec.aliases().empty()) return source;
  std::unordered_set<std::string> own, left_out;
  for (const TensorInfo& tensor : source.tensors) own.insert(tensor.name);
  std::unordered_map<std::string, std::string> in_file;  // by the name of the parameter
  for (const AliasSpec& alias : spec.aliases()) {
    const std::string& name = spec.parameters()[static_cast<std::size_t>(alias.of.value)].name;
    if (!own.contains(name) && own.contains(alias.name) && !in_file.contains(name))
      in_file.emplace(name, alias.name);
    else
      left_out.insert(alias.name);
  }
  std::unordered_map<std::string, std::string> renamed;
  for (const auto& [name, alias] : in_file) renamed.emplace(alias, name);
  std::erase_if(source.tensors,
                [&](const TensorInfo& tensor) { return left_out.contains(tensor.name); });
  for (TensorInfo& tensor : source.tensors)
    if (const auto name = renamed.find(tensor.name); name != renamed.end())
      tensor.name = name->second;
  source.read = [in_file, read = std::move(source.read)](const std::string& name) {
    const auto alias = in_file.find(name);
    return read(alias == in_file.end() ? name : alias->second);
  };
  return source;
}

bool has_value(const ConstantSpec& constant, const Tensor& found) {
  if (found.shape().element_count() != constant.value.shape().element_count()) return false;
  const bool floating = is_floating(found.dtype()) && is_floating(constant.value.dtype());
  if (!floating && found.dtype() != constant.value.dtype()) return false;
  const Tensor wanted = floating ? cast(constant.value, found.dtype()) : constant.value;
  return std::memcmp(wanted.raw(), found.raw(), wanted.bytes()) == 0;
}

void check_tensors(const StateSpec& spec, const TensorSource& given,
                   const std::vector<std::string>& optimizer_state, bool strict) {
  const TensorSource source = by_own_names(spec, given);
  const std::vector<TensorInfo>& tensors = source.tensors;
  Checker checker(tensors);
  for (const ParameterSpec& parameter : spec.parameters())
    checker.expect(parameter.name, parameter.shape);
  for (const BufferSpec& buffer : spec.buffers()) checker.expect(buffer.name, buffer.shape);
  for (const CounterSpec& counter : spec.counters()) checker.expect_counter(counter.name);
  for (const ConstantSpec& constant : spec.constants())
    if (checker.allow(constant) && constant.fixed &&
        !has_value(constant, source.read(constant.name)))
      checker.add_other_value(constant.name);
  for (const std::string& state : present(optimizer_state, spec, tensors))
    for (const ParameterSpec& parameter : spec.parameters())
      checker.expect(optimizer_name(state, parameter), parameter.shape);
  checker.finish(strict);
}

namespace {

/// The values of constants: those of the file that no module reads, else those of the model.
std::vector<Tensor> constants_from(const StateSpec& spec, const TensorSource& source) {
  std::unordered_set<std::string_view> names;
  for (const TensorInfo& tensor : source.tensors) names.insert(tensor.name);
  std::vector<Tensor> values;
  for (const ConstantSpec& constant : spec.constants()) {
    values.push_back(constant.value);
    if (constant.fixed || !names.contains(constant.name)) continue;
    const Tensor found = source.read(constant.name);
    const bool same_type = found.dtype() == constant.value.dtype();
    values.back() = Tensor::empty(constant.value.shape(), constant.value.dtype(), Device::cpu());
    const Tensor converted = same_type ? found : cast(found, constant.value.dtype());
    std::memcpy(values.back().raw(), converted.raw(), converted.bytes());
  }
  return values;
}

}  // namespace

StatePtr state_from(const StateSpec& spec, DType dtype, const TensorSource& given,
                    std::int64_t step, const std::vector<std::string>& optimizer_state,
                    bool strict) {
  const TensorSource source = by_own_names(spec, given);
  check_tensors(spec, source, optimizer_state, strict);
  const auto take = [&](const std::string& name, const Tensor& into) {
    const Tensor converted = cast(source.read(name), into.dtype());
    std::memcpy(into.raw(), converted.raw(), into.bytes());
  };
  auto state = std::make_shared<StateVersion>();
  state->step = state->updates = step;
  state->weights = Tensor::zeros(Shape{spec.parameter_elements()}, dtype);
  state->buffers = Tensor::zeros(Shape{spec.buffer_elements()}, dtype);
  const auto& parameters = spec.parameters();
  const auto weights = spec.parameter_views(state->weights);
  for (std::size_t i = 0; i < parameters.size(); ++i) take(parameters[i].name, weights[i]);
  const auto buffers = spec.buffer_views(state->buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) take(spec.buffers()[i].name, buffers[i]);
  for (const CounterSpec& counter : spec.counters())
    state->counters.push_back(*source.read(counter.name).data<std::int64_t>());
  state->constants = constants_from(spec, source);
  for (const std::string& name : present(optimizer_state, spec, source.tensors)) {
    Tensor kept = Tensor::zeros(Shape{spec.parameter_elements()}, dtype);
    const auto into = spec.parameter_views(kept);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      take(optimizer_name(name, parameters[i]), into[i]);
    state->optimizer_state.push_back({name, std::move(kept)});
  }
  return state;
}

}  // namespace troupe

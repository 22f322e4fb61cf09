#include "actors/partial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "ops/nn/name_prefixes.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// Why this tensor of the file cannot become that of the model; empty: it can.
std::string misfit(const TensorInfo* found, const TensorInfo& wanted) {
  if (!found) return "the file lacks it";
  if (found->shape != wanted.shape &&
      !(wanted.shape.rank() == 0 && found->shape.element_count() == 1))
    return fmt::format("{} here, {} in the file", to_string(wanted.shape), to_string(found->shape));
  const bool same_kind =
      is_floating(wanted.dtype) ? is_floating(found->dtype) : found->dtype == wanted.dtype;
  return same_kind ? std::string() : fmt::format("{} in the file", name_of(found->dtype));
}

std::shared_ptr<const StateSpec> spec_of(const PipelineOptions& options) {
  const Model model = model_of(options);
  auto spec = std::make_shared<StateSpec>();
  for (const auto& block : model.blocks) block->declare(*spec);
  return spec;
}

/// The model's tensors as in a new run, made when they are read.
TensorSource new_weights(const std::shared_ptr<const StateSpec>& spec, std::uint64_t seed) {
  TensorSource source;
  for (const ParameterSpec& parameter : spec->parameters())
    source.tensors.push_back({parameter.name, DType::f32, parameter.shape});
  for (const BufferSpec& buffer : spec->buffers())
    source.tensors.push_back({buffer.name, DType::f32, buffer.shape});
  for (const CounterSpec& counter : spec->counters())
    source.tensors.push_back({counter.name, DType::i64, Shape{}});
  for (const ConstantSpec& constant : spec->constants())
    if (!constant.fixed)
      source.tensors.push_back({constant.name, constant.value.dtype(), constant.value.shape()});
  source.read = [spec, seed](const std::string& name) {
    for (const ConstantSpec& constant : spec->constants())
      if (constant.name == name) return constant.value;
    StateSpec one;  // a parameter's numbers depend on its name alone
    for (const ParameterSpec& p : spec->parameters())
      if (p.name == name) one.add_parameter(p.name, p.shape, p.initializer);
    for (const BufferSpec& b : spec->buffers())
      if (b.name == name) one.add_buffer(b.name, b.shape, b.initial, b.momentum, b.read);
    for (const CounterSpec& counter : spec->counters())
      if (counter.name == name) one.add_counter(counter.name, counter.read);
    return named_tensors(one, *initial_state(one, DType::f32, seed), false).at(0).tensor;
  };
  return source;
}

/// Adds to tensors that the file lacks, and to those that the model lacks, a similar name of the
/// other side: they may be the same tensor. Only to the first ones, because names are compared with
/// each other.
void add_similar_names(PartialWeights& weights, const std::set<std::string_view>& in_model,
                       const std::map<std::string_view, const TensorInfo*>& in_file) {
  std::vector<std::string_view> lacking, surplus;
  for (const std::string_view name : in_model)
    if (!in_file.contains(name)) lacking.push_back(name);
  for (const auto& [name, tensor] : in_file)
    if (!in_model.contains(name)) surplus.push_back(name);
  const auto add = [](std::vector<std::string>& texts, const std::vector<std::string_view>& names,
                      const std::vector<std::string_view>& others, std::string_view of_whom) {
    constexpr std::size_t most = 8;
    const std::set<std::string_view> without_other(names.begin(), names.end());
    for (std::size_t i = 0; i < std::min(most, texts.size()); ++i) {
      const std::string name = texts[i].substr(0, texts[i].find(" ("));
      if (!without_other.contains(name)) continue;
      if (const std::string similar = similar_name(name, others, names); !similar.empty())
        texts[i] += fmt::format(" [like {} of {}]", similar, of_whom);
    }
  };
  add(weights.initialised, lacking, surplus, "the file");
  add(weights.unused, surplus, lacking, "the model");
}

/// The constants that the model computes with, in place of other values of the file.
std::vector<std::string> kept_constants(const StateSpec& spec, const TensorSource& file) {
  std::vector<std::string> result;
  std::set<std::string_view> in_file;
  for (const TensorInfo& tensor : file.tensors) in_file.insert(tensor.name);
  for (const ConstantSpec& constant : spec.constants())
    if (constant.fixed && in_file.contains(constant.name))
      if (!has_value(constant, file.read(constant.name)))
        result.push_back(constant.name + " (a constant of the graph, with another value)");
  return result;
}

/// The error for a file of so many tensors of which nothing fits. `misfits` are tensors of the
/// model that the file has with other shapes or types, and why they do not fit.
Error nothing_fits(const std::string& origin, std::int64_t tensors, const TensorSource& file,
                   const TensorSource& model, const std::vector<std::string>& misfits) {
  constexpr std::size_t shown = 3;
  std::vector<std::string_view> given;
  for (const TensorInfo& tensor : file.tensors) given.emplace_back(tensor.name);
  std::unordered_set<std::string_view> wanted;
  for (const TensorInfo& tensor : model.tensors) wanted.emplace(tensor.name);
  const auto names_of = [](const TensorSource& source) {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : source.tensors) names.push_back(tensor.name);
    return names.empty() ? "none" : listed(names, shown);
  };
  const std::string why = misfits.empty() ? fmt::format("the file has {}; the model has {}",
                                                        names_of(file), names_of(model))
                                          : listed(misfits, shown);
  return {ErrorCode::bad_file,
          fmt::format("{}: none of its {} fits{}: {}", origin, counted(tensors, "tensor"),
                      prefix_hint(given, wanted), why),
          misfits.empty() ? "give weights of this model, or rename the tensors of the file as the "
                            "model names them"
                          : "create the model with the sizes of the file, or give weights of this "
                            "model"};
}

}  // namespace

PartialWeights partial_weights(const PipelineOptions& options, const TensorSource& given,
                               const std::string& origin) {
  const std::shared_ptr<const StateSpec> spec = spec_of(options);
  const TensorSource file = by_own_names(*spec, given);
  std::map<std::string_view, const TensorInfo*> in_file;
  for (const TensorInfo& tensor : file.tensors) in_file.emplace(tensor.name, &tensor);
  const TensorSource begun = new_weights(spec, options.seed);
  PartialWeights result{.tensors = begun, .initialised = {}, .unused = kept_constants(*spec, file)};
  std::set<std::string> taken;
  std::vector<std::string> misfits;
  bool any_fits = false;                // counters, such as num_batches_tracked, fit any model
  std::set<std::string_view> in_model;  // those that do not fit are in `initialised`
  for (const ConstantSpec& constant : spec->constants()) in_model.insert(constant.name);
  for (const TensorInfo& wanted : begun.tensors) {
    in_model.insert(wanted.name);
    const auto found = in_file.find(wanted.name);
    const std::string why = misfit(found == in_file.end() ? nullptr : found->second, wanted);
    if (why.empty()) {
      taken.insert(wanted.name);
      any_fits |= is_floating(wanted.dtype);
    } else {
      result.initialised.push_back(fmt::format("{} ({})", wanted.name, why));
      if (found != in_file.end()) misfits.push_back(result.initialised.back());
    }
  }
  if (!any_fits) throw nothing_fits(origin, std::ssize(given.tensors), file, begun, misfits);
  for (const TensorInfo& tensor : file.tensors)
    if (!taken.contains(tensor.name) && !in_model.contains(tensor.name))
      result.unused.push_back(tensor.name);
  add_similar_names(result, in_model, in_file);
  result.tensors.read = [taken = std::move(taken), from_file = file.read,
                         anew = begun.read](const std::string& name) {
    return taken.contains(name) ? from_file(name) : anew(name);
  };
  return result;
}

}  // namespace troupe

#include "ops/optim/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "ops/kernels.h"
#include "runtime/error.h"
#include "runtime/setting_names.h"
#include "runtime/text.h"

namespace troupe {
namespace {

bool matches(const std::string& pattern, std::string_view name) {
  return fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
}

bool holds(const ParameterGroup& group, std::string_view name) {
  return std::ranges::any_of(group.parameters,
                             [&](const std::string& pattern) { return matches(pattern, name); });
}

std::string shown(const ParameterGroup& group) {
  return fmt::format("the {} [{}]", group.frozen ? "frozen parameters" : "parameter group",
                     fmt::join(group.parameters, ", "));
}

[[noreturn]] void refuse(const ParameterGroup& group, std::string_view why, std::string remedy) {
  throw Error(ErrorCode::bad_options, fmt::format("{}: {}", shown(group), why), std::move(remedy));
}

/// The smallest edit distance between `literal` and a part of `name`: one that begins with the name
/// or behind a dot, and ends with it or before a dot.
std::size_t slips(std::string_view literal, std::string_view name) {
  std::size_t fewest = std::string_view::npos;
  for (std::size_t begin = 0;; begin = name.find('.', begin) + 1) {
    for (std::size_t end = begin; end < name.size();) {
      end = std::min(name.find('.', end + 1), name.size());
      const std::size_t size = end - begin;
      if (size > literal.size() && size - literal.size() >= fewest) break;  // the lengths differ so
      fewest = std::min(fewest, edit_distance(literal, name.substr(begin, size)));
    }
    if (name.find('.', begin) == name.npos) return fewest;
  }
}

/// The pattern for all parameters of a module or of a kind, if `pattern` is the name of one: the
/// patterns of a shell match whole names.
std::optional<std::string> completed(const std::string& pattern,
                                     const std::vector<std::string>& names) {
  for (const std::string& whole : {pattern + ".*", "*." + pattern, "*." + pattern + ".*"})
    if (std::ranges::any_of(names, [&](const auto& name) { return matches(whole, name); }))
      return whole;
  return std::nullopt;
}

/// Suggests the completed pattern, such as "stem.*" for "stem"; else the parameter names nearest to
/// the longest part of the pattern without wildcards.
std::string remedy_for(const std::string& pattern, std::vector<std::string> names) {
  if (const auto whole = completed(pattern, names)) return fmt::format("write \"{}\"", *whole);
  constexpr std::size_t shown = 3;
  std::string literal;
  for (std::size_t begin = 0; begin < pattern.size();) {
    const std::size_t end = std::min(pattern.find_first_of("*?", begin), pattern.size());
    std::string_view part = std::string_view(pattern).substr(begin, end - begin);
    if (part.starts_with('.')) part.remove_prefix(1);
    if (part.ends_with('.')) part.remove_suffix(1);
    if (part.size() > literal.size()) literal = part;
    begin = end + 1;
  }
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return slips(literal, name); });
  if (names.size() > shown) names.resize(shown);
  return fmt::format("the nearest names are {}", fmt::join(names, ", "));
}

}  // namespace

Optimizer Optimizer::with_groups(std::vector<ParameterGroup> groups) const {
  Optimizer result = *this;
  result.groups_ = std::move(groups);
  for (ParameterGroup& group : result.groups_) group.frozen = group.frozen || group.lr == 0.0;
  return result;
}

Optimizer Optimizer::with_clip_value(double limit) const {
  Optimizer result = *this;
  result.clip_value_ = limit;
  result.scaling_ = {};
  if (limit > 0) result.scaling_.limit = limit;
  return result;
}

Optimizer Optimizer::with_clip_norm(double limit) const {
  Optimizer result = *this;
  result.clip_norm_ = limit;
  return result;
}

Optimizer Optimizer::with_average(double decay) const {
  Optimizer result = *this;
  result.average_decay_ = decay;
  return result;
}

const ParameterGroup* Optimizer::group_of(std::string_view parameter) const {
  for (const ParameterGroup& group : groups_)
    if (holds(group, parameter)) return &group;
  return nullptr;
}

bool Optimizer::freezes(std::string_view parameter) const {
  const ParameterGroup* group = group_of(parameter);
  return group && group->frozen;
}

// Each schedule is a factor of the base rate. The factor of the gradient is that of PyTorch's
// clip_grad_norm_, with its guard against a norm of zero.
Optimizer Optimizer::at(const LearningRateOptions& rate, std::int64_t step, double gradient_norm,
                        double loss_scale) const {
  Optimizer result = *this;
  const double factor = clip_norm_ > 0 ? clip_norm_ / (gradient_norm + 1e-6) : 1;
  result.scaling_.factor = (factor > 1 ? 1 : factor) / loss_scale;
  if (clip_value_ > 0) result.scaling_.limit = clip_value_ * loss_scale;
  for (ParameterGroup& group : result.groups_) {
    LearningRateOptions own = rate;
    own.lr = group.lr.value_or(rate.lr);
    group.lr = learning_rate(own, step);
  }
  return result;
}

bool Optimizer::scales_gradients() const {
  return scales_gradients_ && std::ranges::all_of(groups_, [](const ParameterGroup& group) {
           return group.optimizer.scales_gradients_;
         });
}

bool Optimizer::keeps_zeroes() const {
  return keeps_zeroes_(*this) && std::ranges::all_of(groups_, [](const ParameterGroup& group) {
           return group.optimizer.keeps_zeroes();
         });
}

std::vector<std::string> Optimizer::state_names() const {
  std::vector<std::string> names = state_names_(*this);
  for (const ParameterGroup& group : groups_)
    for (std::string& name : group.optimizer.state_names())
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  if (average_decay_ > 0) names.emplace_back(average_name);
  return names;
}

OptimizerSlice Optimizer::with_scaled_gradient(const Stream& stream, const OptimizerStep& step,
                                               const OptimizerSlice& slice) {
  OptimizerSlice result = slice;
  const auto& [limit, factor] = step.scaling;
  if (step.scaling == GradientScaling()) return result;
  const KernelTable& table = kernels(stream.device, slice.gradient.dtype());
  if (std::isfinite(limit)) result.gradient = table.clamp(stream, result.gradient, -limit, limit);
  if (factor != 1) {
    Tensor scaled =
        Tensor::empty(slice.gradient.shape(), slice.gradient.dtype(), slice.gradient.device());
    table.scale(stream, result.gradient, factor, scaled);
    result.gradient = std::move(scaled);
  }
  return result;
}

void Optimizer::update_all(const Stream& stream,
                           std::span<const UpdateBy<Optimizer>> updates) const {
  // Groups of another optimizer, which check() refuses, are updated each by their own.
  const auto is_alike = [&](const auto& one) { return one.rule.update_all_ == update_all_; };
  if (std::ranges::all_of(updates, is_alike)) return update_all_(stream, updates);
  for (const auto& [rule, step, slice] : updates) rule.update(stream, step, slice);
}

void Optimizer::check() const {
  check_options();
  check_(*this);
  if (!(std::isfinite(clip_value_) && clip_value_ >= 0))
    throw Error(ErrorCode::bad_options, fmt::format("`clip_value` is {}", clip_value_),
                "give a positive number, or 0 for no limit");
  if (!(std::isfinite(clip_norm_) && clip_norm_ >= 0))
    throw Error(ErrorCode::bad_options, fmt::format("`clip_norm` is {}", clip_norm_),
                "give a positive number, or 0 for no limit");
  if (clip_norm_ > 0 && clip_value_ > 0)
    throw Error(ErrorCode::bad_options,
                fmt::format("`clip_norm` is {} and `clip_value` {}", clip_norm_, clip_value_),
                "set one of them to 0");
  if (!(average_decay_ >= 0 && average_decay_ < 1))
    throw Error(ErrorCode::bad_options, fmt::format("`ema_decay` is {}", average_decay_),
                "give a number from 0, less than 1, such as 0.999; 0: no average");
  std::vector<std::string> own = own_state_names();
  std::ranges::sort(own);
  if (const auto twice = std::ranges::adjacent_find(own); twice != own.end())
    throw Error(ErrorCode::bad_options,
                fmt::format("{} names the state tensor {} twice", name(), *twice),
                "give each state tensor a name of its own");
  for (const ParameterGroup& group : groups_) {
    if (group.optimizer.name() != name() || !group.optimizer.groups().empty())
      refuse(group,
             fmt::format("its optimizer is {}, but that of the run is {}", group.optimizer.name(),
                         name()),
             "give it the run's optimizer, with other hyper-parameters");
    if (group.parameters.empty())
      refuse(group, "it has no parameters", "name parameters, such as \"*.bias\"");
    if (group.lr && !(std::isfinite(*group.lr) && *group.lr >= 0))
      refuse(group, fmt::format("its learning rate is {}", *group.lr), "give a number >= 0");
    try {
      group.optimizer.check();
    } catch (const Error& error) {  // its names are those of the group, not of the run's settings
      const Error plain =
          with_setting_names(error, [](std::string_view name) { return std::string(name); });
      refuse(group, plain.message(), plain.remedy());
    }
  }
}

void Optimizer::check_groups(const std::vector<std::string>& parameters) const {
  for (const ParameterGroup& group : groups_)
    for (const std::string& pattern : group.parameters)
      if (std::ranges::none_of(parameters,
                               [&](const auto& name) { return matches(pattern, name); }))
        refuse(group, fmt::format("no parameter of the model matches {}", pattern),
               remedy_for(pattern, parameters));
  for (const std::string& name : parameters) {
    if (freezes(name)) continue;  // what later groups would set has no effect
    const ParameterGroup* first = group_of(name);
    for (const ParameterGroup& group : groups_)
      if (&group != first && holds(group, name))
        refuse(group, fmt::format("{} is in {} as well", name, shown(*first)),
               "give patterns that put each parameter in one group");
  }
}

}  // namespace troupe

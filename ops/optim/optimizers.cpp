#include "ops/optim/optimizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ops/optim/sgd.h"
#include "runtime/error.h"

namespace troupe {

const std::vector<OptimizerEntry>& known_optimizers() {
  static const std::vector<OptimizerEntry> entries{
      sgd_entry(),
  };
  return entries;
}

namespace {

/// The element of this name. Throws with the names of all elements.
template <class Named>
const Named& named(const std::vector<Named>& all, std::string_view name, std::string_view what) {
  const auto found = std::ranges::find(all, name, &Named::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> known;
  for (const Named& one : all) known.push_back(one.name);
  throw Error(ErrorCode::bad_options, fmt::format("unknown {} '{}'", what, name),
              fmt::format("use one of {}", fmt::join(known, ", ")));
}

}  // namespace

OptimizerPtr make_optimizer(std::string_view name, const HyperParameters& values) {
  const OptimizerEntry& entry = named(known_optimizers(), name, "optimizer");
  HyperParameters all;
  for (const HyperParameter& parameter : entry.hyper_parameters)
    all.emplace(parameter.name, parameter.initial);
  for (const auto& [key, value] : values) {
    const HyperParameter& parameter =
        named(entry.hyper_parameters, key, fmt::format("hyper-parameter of {}", name));
    if (!(value >= parameter.at_least && value < parameter.below))
      throw Error(ErrorCode::bad_options, fmt::format("{} of {} is {}", key, name, value),
                  fmt::format("give a number of at least {} and below {}", parameter.at_least,
                              parameter.below));
    all[key] = value;
  }
  return entry.make(all);
}

OptimizerPtr default_optimizer() { return make_optimizer(known_optimizers().front().name); }

}  // namespace troupe

#pragma once
// The optimizers that options can name. A new one is a file with an Optimizer and its entry, and a
// line in optimizers.cpp.

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/optim/optimizer.h"

namespace troupe {

/// A number that an optimizer is made with; a flag is 0 or 1.
struct HyperParameter {
  std::string_view name;
  double initial = 0.0;
  double at_least = 0.0;
  double below = std::numeric_limits<double>::infinity();
};
using HyperParameters = std::map<std::string, double, std::less<>>;  ///< by name

struct OptimizerEntry {
  std::string_view name;
  std::vector<HyperParameter> hyper_parameters;
  OptimizerPtr (*make)(const HyperParameters& values);  ///< is given a value for each
};

/// All of them; the first is the default.
const std::vector<OptimizerEntry>& known_optimizers();

/// Hyper-parameters that are not given have their initial values. Throws Error{bad_options} for an
/// unknown optimizer or hyper-parameter, listing the known ones, and for a value out of range.
OptimizerPtr make_optimizer(std::string_view name, const HyperParameters& values = {});

/// The first of known_optimizers() with its initial hyper-parameters.
OptimizerPtr default_optimizer();

}  // namespace troupe

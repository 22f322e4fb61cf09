#pragma once
#include <vector>

#include "samples.h"

namespace troupe::testing_ops {

/// The samples of activations, arithmetic, reductions and normalisations of rows;
/// tests/golden/golden_functions.py has the same.
std::vector<Sample> function_samples();

}  // namespace troupe::testing_ops

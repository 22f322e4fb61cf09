#pragma once
// Test samples of data sets that have no test files.

#include <cstdint>
#include <vector>

#include "actors/data/dataset.h"

namespace troupe {

/// The samples of each split, in ascending order.
struct HeldOut {
  std::vector<std::uint32_t> train, test;
};

/// Draws `fraction` of `samples` samples by the seed for testing; 0: none. Throws
/// Error{bad_options} if that leaves a split without samples.
HeldOut hold_out(double fraction, std::int64_t samples, std::uint64_t seed);

/// Throws Error{bad_options} for a fraction beside test samples of their own, which are in `where`.
void check_no_test_samples(double fraction, const std::string& where);

/// data.test_fraction
OptionField test_fraction_option(double& fraction);

}  // namespace troupe

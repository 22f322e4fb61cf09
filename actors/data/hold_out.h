#pragma once
// Test samples of data sets that have no test files.

#include <cstdint>
#include <string>
#include <vector>

#include "actors/data/dataset.h"

namespace troupe {

/// The samples of each split, in ascending order.
struct HeldOut {
  std::vector<std::uint32_t> train, test;
};

/// Draws `fraction` of the `samples` samples in `where` by the seed for testing. Throws
/// Error{bad_options} if that leaves a split without samples.
HeldOut hold_out(double fraction, std::int64_t samples, std::uint64_t seed,
                 const std::string& where);

/// Throws Error{bad_options} for a fraction beside test samples of their own, which are in `where`.
void check_no_test_samples(double fraction, const std::string& where);

/// data.test_fraction
OptionField test_fraction_option(double& fraction);

}  // namespace troupe

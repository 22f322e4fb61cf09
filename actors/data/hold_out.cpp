#include "actors/data/hold_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "actors/data/sampler.h"
#include "runtime/error.h"

namespace troupe {

HeldOut hold_out(double fraction, std::int64_t samples, std::uint64_t seed,
                 const std::string& where) {
  const auto test =
      static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(samples)));
  if (test == 0 || test == samples)
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::test_fraction` is {}, which holds out {} of {} samples",
                            fraction, test, samples),
                "give a fraction that leaves samples for training and for testing");
  if (samples > std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has {} samples, too many to divide", where, samples),
                "store the test samples apart from the others");
  // An order of its own: an epoch's number is never this.
  const std::vector<std::uint32_t> order =
      epoch_order({.seed = seed, .samples = samples}, std::numeric_limits<std::uint32_t>::max());
  HeldOut result{{order.begin() + test, order.end()}, {order.begin(), order.begin() + test}};
  std::ranges::sort(result.train);
  std::ranges::sort(result.test);
  return result;
}

void check_no_test_samples(double fraction, const std::string& where) {
  if (fraction > 0)
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::test_fraction` is {}, but there are test samples in {}",
                            fraction, where),
                "set `Dataset::test_fraction` to 0, or remove the test samples");
}

OptionField test_fraction_option(double& fraction) {
  return field("data.test_fraction", fraction,
               "share of the training samples held out for testing (drawn by the seed); only "
               "without test files",
               {.at_least = 0, .below = 1, .setting = "Dataset::test_fraction"});
}

}  // namespace troupe

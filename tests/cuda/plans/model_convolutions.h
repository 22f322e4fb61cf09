#pragma once
// The convolutions of a model, with the sizes of their images.

#include <string>
#include <vector>

#include "ops/kernels.h"
#include "ops/models/model.h"

namespace troupe::testing {

struct ConvolutionUse {
  ConvolutionOptions options;
  Shape x, y;
};

/// "64 -> 128, 3x3 / 2, of 56x56".
std::string text_of(const ConvolutionUse& use);

/// Those that differ, in the order of the forward pass, for batches of `batch` samples.
std::vector<ConvolutionUse> convolutions_of(const ModelSource& source, const SampleSpec& samples,
                                            std::int64_t batch);

}  // namespace troupe::testing

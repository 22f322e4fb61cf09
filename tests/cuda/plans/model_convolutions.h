#pragma once
// The convolutions of a model, with the sizes of their images.

#include <string>
#include <vector>

#include "ops/cuda/dnn.h"
#include "ops/models/model.h"

namespace troupe::testing {

/// "64 -> 128, 3x3 / 2, of 56x56 (forward)".
std::string text_of(const ConvolutionWork& work);

/// The passes of a training step of `batch` samples that differ, by blocks, in their order.
std::vector<ConvolutionWork> convolutions_of(const ModelSource& source, const SampleSpec& samples,
                                             std::int64_t batch);

}  // namespace troupe::testing

#pragma once
// Options and checks that several models of images share.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/models/model.h"

namespace troupe {

OptionField classes_option(std::int64_t& classes);
OptionField dropout_option(double& probability);
OptionField widths_option(std::vector<std::int64_t>& widths, std::string help);
OptionField convolution_option(ConvolutionAlgorithm& algorithm);

/// Throws Error{bad_options} unless the samples are [channels, height, width] with both sides in
/// [least, most].
void check_images(std::string_view model, const SampleSpec& samples, std::int64_t least,
                  std::int64_t most);
/// Throws Error{bad_options} where the algorithm has no kernels for the samples' type.
void check_convolution(ConvolutionAlgorithm algorithm, const SampleSpec& samples);
/// Throws Error{bad_options} where the samples are indices (i64), which a model without an
/// embedding cannot take, and where the data set has more classes than the model has outputs,
/// except for two classes and one output: the binary cross-entropy takes these.
void check_samples(std::string_view model, std::int64_t classes, const SampleSpec& samples);

}  // namespace troupe

#include "ops/models/image_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr double largest_size = 1e6;  // of one axis of a tensor
constexpr std::array<std::pair<std::string_view, ConvolutionAlgorithm>, 3> algorithms{
    {{"auto", ConvolutionAlgorithm::automatic},
     {"direct", ConvolutionAlgorithm::direct},
     {"winograd", ConvolutionAlgorithm::winograd}}};

}  // namespace

OptionField classes_option(std::int64_t& classes) {
  return field("model.classes", classes,
               "outputs of the model; auto: one for each class of the data set, or for each number "
               "of a target",
               {.at_least = 1,
                .at_most = largest_size,
                .synonyms = {"num_classes", "outputs"},
                .setting = "Model::classes"});
}

OptionField dropout_option(double& probability) {
  return field("model.dropout", probability, "probability of dropping an activation",
               {.at_least = 0, .below = 1});
}

OptionField widths_option(std::vector<std::int64_t>& widths, std::string help) {
  return field("model.widths", widths, std::move(help),
               {.at_least = 1,
                .at_most = largest_size,
                .synonyms = {"width", "hidden"},
                .setting = "Model::widths"});
}

OptionField convolution_option(ConvolutionAlgorithm& algorithm) {
  return choice_field(
      "convolution", algorithm, algorithms,
      "algorithm of convolutions on the CPU; auto uses Winograd where it is faster");
}

void check_images(std::string_view model, const SampleSpec& samples, std::int64_t least,
                  std::int64_t most) {
  const Shape& shape = samples.shape;
  if (shape.rank() != 3)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} cannot take samples of shape {}", model, to_string(shape)),
                "it takes images of [channels, height, width]");
  const auto fits = [&](std::int64_t size) { return size >= least && size <= most; };
  constexpr std::int64_t most_channels = 4;
  const bool channels_last = shape[2] <= most_channels && shape[0] > most_channels;
  if ((!fits(shape[1]) || !fits(shape[2])) && channels_last)
    throw Error(ErrorCode::bad_options,
                fmt::format("samples have the shape {}, whose last axis seems to be that of the "
                            "channels",
                            to_string(shape)),
                "save [channels, height, width]: x.transpose(0, 3, 1, 2)");
  if (!fits(shape[1]) || !fits(shape[2]))
    throw Error(ErrorCode::bad_options,
                fmt::format("{} cannot take samples of {} × {} pixels", model, shape[1], shape[2]),
                fmt::format("use another model, such as {}, or images of {} pixels a side",
                            std::min(shape[1], shape[2]) < 4 ? "mlp" : "mnist_cnn",
                            most == INT64_MAX ? fmt::format("at least {}", least)
                                              : fmt::format("{} to {}", least, most)));
}

void check_convolution(ConvolutionAlgorithm algorithm, const SampleSpec& samples) {
  if (algorithm == ConvolutionAlgorithm::winograd && samples.dtype == DType::f64)
    throw Error(ErrorCode::bad_options, "`convolution` is winograd, which has no kernels for f64",
                "set `convolution` to auto");
}

void check_samples(std::string_view model, std::int64_t classes, const SampleSpec& samples) {
  if (samples.dtype == DType::i64)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} takes numbers, but the samples are indices of i64", model),
                "store the samples as f32, or choose a model with an embedding");
  const bool binary = classes == 1 && samples.classes == 2;
  if (classes < samples.classes && !binary)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} has {}, but the largest class in the data set is {}", model,
                            counted(classes, "output"), samples.classes - 1),
                fmt::format("number classes from 0; for {}, set `Model::classes` to {}",
                            counted(samples.classes, "class"), samples.classes));
}

}  // namespace troupe

#include <fmt/format.h>

#include "ops/models/models.h"
#include "ops/nn/layers.h"
#include "ops/nn/sequential.h"
#include "runtime/error.h"

namespace troupe::models {

Model mnist_cnn(const ModelOptions& options) {
  if (options.height < 4 || options.width < 4)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("mnist_cnn on samples of {} × {} pixels", options.height, options.width),
        "it halves them twice: give at least 4 pixels a side");
  constexpr std::int64_t narrow = 16, wide = 32;
  Model model;
  const auto layer = [&](std::string path, std::int64_t in, std::int64_t out) {
    model.add<nn::Sequential>(std::move(path))
        .add<nn::Conv2d>("0", ConvolutionOptions{.in_channels = in,
                                                 .out_channels = out,
                                                 .kernel_h = 5,
                                                 .kernel_w = 5,
                                                 .padding_h = 2,
                                                 .padding_w = 2,
                                                 .algorithm = options.convolution})
        .add<nn::BatchNorm2d>("1", nn::BatchNormOptions{.features = out, .relu = true})
        .add<nn::MaxPool2d>("3", PoolOptions{});
  };
  layer("layer1", options.in_channels, narrow);
  layer("layer2", narrow, wide);
  model.add<nn::Flatten>("flatten");
  model.add<nn::Linear>(
      "fc", LinearOptions{.in_features = (options.height / 4) * (options.width / 4) * wide,
                          .out_features = options.classes});
  return model;
}

}  // namespace troupe::models

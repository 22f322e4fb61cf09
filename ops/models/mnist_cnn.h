#pragma once
#include "ops/models/image_options.h"
#include "ops/nn/layers.h"
#include "ops/nn/sequential.h"

namespace troupe {

/// The convolutional network that CSC's PyTorch examples train on MNIST: two layers of a 5x5
/// convolution (16 and 32 channels), batch norm, ReLU and max pooling, then one linear layer.
/// Blocks: layer1, layer2, flatten, fc.
struct MnistCnn {
  static constexpr std::string_view name = "mnist_cnn";
  std::int64_t classes = 10;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;

  OptionFields options() { return {classes_option(classes), convolution_option(convolution)}; }

  Model make(const SampleSpec& samples) const {
    check_images(name, samples, 4, INT64_MAX);  // pooling halves each side twice
    check_convolution(convolution, samples);
    check_samples(name, classes, samples);
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
                                                   .algorithm = convolution})
          .add<nn::BatchNorm2d>("1", nn::BatchNormOptions{.features = out, .relu = true})
          .add<nn::MaxPool2d>("3", PoolOptions{});
    };
    layer("layer1", samples.shape[0], narrow);
    layer("layer2", narrow, wide);
    model.add<nn::Flatten>("flatten");
    model.add<nn::Linear>(
        "fc", LinearOptions{.in_features = (samples.shape[1] / 4) * (samples.shape[2] / 4) * wide,
                            .out_features = classes});
    return model;
  }
};

}  // namespace troupe

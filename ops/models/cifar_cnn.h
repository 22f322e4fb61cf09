#pragma once
#include "ops/models/image_options.h"
#include "ops/nn/layers.h"

namespace troupe {

/// The convolutional network of PyTorch's tutorial "Training a classifier", which trains it on
/// CIFAR-10 (after Y. LeCun et al., "Gradient-based learning applied to document recognition",
/// 1998): 5x5 convolutions to 6 and 16 channels, each with ReLU and max pooling, then linear layers
/// of 120, 84 and `classes` outputs. Blocks: conv1, relu1, pool1, conv2, relu2, pool2, flatten,
/// fc1, relu3, fc2, relu4, fc3. An image of 32x32 pixels gives fc1 400 inputs.
struct CifarCnn {
  static constexpr std::string_view name = "cifar_cnn";
  std::int64_t classes = 10;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;

  OptionFields options() { return {classes_option(classes), convolution_option(convolution)}; }

  Model make(const SampleSpec& samples) const {
    check_images(name, samples, 16, INT64_MAX);  // of 16 pixels a side one is left
    check_convolution(convolution, samples);
    check_samples(name, classes, samples);
    constexpr std::int64_t narrow = 6, wide = 16;
    Model model;
    const auto convolve = [&](std::string path, std::int64_t in, std::int64_t out) {
      model.add<nn::Conv2d>(std::move(path), ConvolutionOptions{.in_channels = in,
                                                                .out_channels = out,
                                                                .kernel_h = 5,
                                                                .kernel_w = 5,
                                                                .algorithm = convolution});
    };
    const auto linear = [&](std::string path, std::int64_t in, std::int64_t out) {
      model.add<nn::Linear>(std::move(path), LinearOptions{.in_features = in, .out_features = out});
    };
    const auto left = [](std::int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; };
    convolve("conv1", samples.shape[0], narrow);
    model.add<nn::Relu>("relu1");
    model.add<nn::MaxPool2d>("pool1", PoolOptions{});
    convolve("conv2", narrow, wide);
    model.add<nn::Relu>("relu2");
    model.add<nn::MaxPool2d>("pool2", PoolOptions{});
    model.add<nn::Flatten>("flatten");
    linear("fc1", wide * left(samples.shape[1]) * left(samples.shape[2]), 120);
    model.add<nn::Relu>("relu3");
    linear("fc2", 120, 84);
    model.add<nn::Relu>("relu4");
    linear("fc3", 84, classes);
    return model;
  }
};

}  // namespace troupe

#pragma once
#include <array>

#include "ops/models/image_options.h"

namespace troupe {

/// How a ResNet's first layers reduce an image.
enum class ResNetStem : std::uint8_t {
  imagenet,  ///< 7x7 convolution with stride 2, and 3x3 max pooling with stride 2
  cifar,     ///< 3x3 convolution with stride 1, for images of few pixels; no pooling
};

/// The options that all ResNets share.
struct ResNetOptions {
  ResNetStem stem = ResNetStem::imagenet;
  std::vector<std::int64_t> widths = {};  ///< four numbers; empty: 64, 128, 256, 512
  std::int64_t classes = 10;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;
};

/// How the ResNets differ: their residual blocks, by group, and whether these are bottlenecks.
struct ResNetDepth {
  std::array<std::int64_t, 4> blocks = {};
  bool bottleneck = false;
};

OptionFields resnet_option_fields(ResNetOptions& options);
Model make_resnet(std::string_view name, const ResNetOptions& options, const ResNetDepth& depth,
                  const SampleSpec& samples);

/// The residual networks of K. He et al., "Deep residual learning for image recognition", CVPR
/// 2016, as torchvision has them: its names, shapes, arithmetic and initial distributions. A
/// bottleneck's stride is in its 3x3 convolution ("v1.5"). Samples of any size from 17 pixels a
/// side with the stem `imagenet`, from 5 with `cifar`.
///
/// Blocks: conv1, bn1 (with its ReLU), maxpool (with the stem `imagenet`), one for each residual
/// block (layer1.0, …), avgpool, flatten, fc.
struct ResNet18 : ResNetOptions {
  static constexpr std::string_view name = "resnet18";
  OptionFields options() { return resnet_option_fields(*this); }
  Model make(const SampleSpec& samples) const {
    return make_resnet(name, *this, {.blocks = {2, 2, 2, 2}}, samples);
  }
};

struct ResNet34 : ResNetOptions {
  static constexpr std::string_view name = "resnet34";
  OptionFields options() { return resnet_option_fields(*this); }
  Model make(const SampleSpec& samples) const {
    return make_resnet(name, *this, {.blocks = {3, 4, 6, 3}}, samples);
  }
};

struct ResNet50 : ResNetOptions {
  static constexpr std::string_view name = "resnet50";
  OptionFields options() { return resnet_option_fields(*this); }
  Model make(const SampleSpec& samples) const {
    return make_resnet(name, *this, {.blocks = {3, 4, 6, 3}, .bottleneck = true}, samples);
  }
};

}  // namespace troupe

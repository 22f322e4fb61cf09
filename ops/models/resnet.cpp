#include "ops/models/resnet.h"

#include <fmt/format.h>

#include "ops/nn/layers.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::array<std::pair<std::string_view, ResNetStem>, 2> stems{
    {{"imagenet", ResNetStem::imagenet}, {"cifar", ResNetStem::cifar}}};

/// A convolution and the norm behind it: torchvision's convN and bnN.
struct LayerOptions {
  std::int64_t in = 0, out = 0;  // channels
  std::int64_t kernel = 3, stride = 1;
  bool relu = true;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
};

ConvolutionOptions convolution_of(const LayerOptions& o) {
  return {.in_channels = o.in,
          .out_channels = o.out,
          .kernel_h = o.kernel,
          .kernel_w = o.kernel,
          .stride_h = o.stride,
          .stride_w = o.stride,
          .padding_h = o.kernel / 2,
          .padding_w = o.kernel / 2,
          .bias = false,
          .algorithm = o.algorithm};
}

/// The norm also adds the residual, before its ReLU.
nn::BatchNormOptions norm_of(const LayerOptions& o) {
  return {.features = o.out, .relu = o.relu, .residual_first = true};
}

struct BlockOptions {
  std::int64_t in = 0, width = 0, out = 0;  // channels; `out` differs from `width` in bottlenecks
  std::int64_t stride = 1;
  bool bottleneck = false;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
};

/// torchvision's BasicBlock or Bottleneck: relu(layers(x) + residual), where the residual is x or,
/// where its shape changes, `downsample` of x.
class Block final : public nn::Module {
 public:
  Block(std::string path, const BlockOptions& o) : Module(std::move(path)) {
    LayerOptions layer{.algorithm = o.algorithm};
    const auto add = [&](std::int64_t in, std::int64_t out, std::int64_t kernel,
                         std::int64_t stride) {
      layer.in = in, layer.out = out, layer.kernel = kernel, layer.stride = stride;
      const std::size_t number = layers_.size() + 1;
      auto& convolution = child<nn::Conv2d>(fmt::format("conv{}", number), convolution_of(layer),
                                            nn::ConvolutionStart::he_normal);
      layers_.push_back(
          {&convolution, &child<nn::BatchNorm2d>(fmt::format("bn{}", number), norm_of(layer))});
    };
    if (o.bottleneck) {
      add(o.in, o.width, 1, 1);
      add(o.width, o.width, 3, o.stride);
      add(o.width, o.out, 1, 1);
    } else {
      add(o.in, o.width, 3, o.stride);
      add(o.width, o.out, 3, 1);
    }
    if (o.stride == 1 && o.in == o.out) return;
    layer.in = o.in, layer.out = o.out, layer.kernel = 1, layer.stride = o.stride;
    layer.relu = false;
    auto& convolution =
        child<nn::Conv2d>("downsample.0", convolution_of(layer), nn::ConvolutionStart::he_normal);
    downsample_ = {&convolution, &child<nn::BatchNorm2d>("downsample.1", norm_of(layer))};
  }

  Value forward(Tape& tape, Value x) override {
    Value inner = x;
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) inner = layers_[i].forward(tape, inner);
    inner = layers_.back().convolution->forward(tape, inner);
    const Value residual = downsample_.convolution ? downsample_.forward(tape, x) : x;
    return layers_.back().norm->forward(tape, inner, residual);
  }

 private:
  struct Layer {  // owned as children
    nn::Conv2d* convolution = nullptr;
    nn::BatchNorm2d* norm = nullptr;

    Value forward(Tape& tape, Value x) const {
      return norm->forward(tape, convolution->forward(tape, x));
    }
  };
  std::vector<Layer> layers_;
  Layer downsample_;
};

std::vector<std::int64_t> widths_of(std::string_view name, const ResNetOptions& options) {
  if (options.widths.empty()) return {64, 128, 256, 512};
  if (options.widths.size() == 4) return options.widths;
  throw Error(ErrorCode::bad_options,
              fmt::format("`Model::widths` has {}", counted(std::ssize(options.widths), "number")),
              fmt::format("{} takes four, such as [64, 128, 256, 512]", name));
}

void add_stem(Model& model, const ResNetOptions& options, std::int64_t in, std::int64_t out) {
  const bool reduces = options.stem == ResNetStem::imagenet;
  const LayerOptions layer{.in = in,
                           .out = out,
                           .kernel = reduces ? 7 : 3,
                           .stride = reduces ? 2 : 1,
                           .algorithm = options.convolution};
  model.add<nn::Conv2d>("conv1", convolution_of(layer), nn::ConvolutionStart::he_normal);
  model.add<nn::BatchNorm2d>("bn1", norm_of(layer));
  if (reduces)
    model.add<nn::MaxPool2d>(
        "maxpool", PoolOptions{.kernel_h = 3, .kernel_w = 3, .padding_h = 1, .padding_w = 1});
}

}  // namespace

OptionFields resnet_option_fields(ResNetOptions& options) {
  return {choice_field("model.stem", options.stem, stems,
                       "first layers: imagenet (7x7, reduces 4x) or cifar (3x3)"),
          widths_option(options.widths, "channels of the four groups (empty: 64, 128, 256, 512)"),
          classes_option(options.classes), convolution_option(options.convolution)};
}

Model make_resnet(std::string_view name, const ResNetOptions& options, const ResNetDepth& depth,
                  const SampleSpec& samples) {
  const std::vector<std::int64_t> widths = widths_of(name, options);
  // With fewer pixels, some layer with a stride would get a single one.
  check_images(name, samples, options.stem == ResNetStem::imagenet ? 17 : 5, INT64_MAX);
  check_convolution(options.convolution, samples);
  check_samples(name, options.classes, samples);
  Model model;
  add_stem(model, options, samples.shape[0], widths[0]);
  std::int64_t in = widths[0];
  for (std::size_t group = 0; group < widths.size(); ++group) {
    const std::int64_t out = widths[group] * (depth.bottleneck ? 4 : 1);
    for (std::int64_t block = 0; block < depth.blocks[group]; ++block) {
      model.add<Block>(fmt::format("layer{}.{}", group + 1, block),
                       BlockOptions{.in = in,
                                    .width = widths[group],
                                    .out = out,
                                    .stride = group > 0 && block == 0 ? 2 : 1,
                                    .bottleneck = depth.bottleneck,
                                    .algorithm = options.convolution});
      in = out;
    }
  }
  model.add<nn::AdaptiveAveragePool2d>("avgpool");
  model.add<nn::Flatten>("flatten");
  model.add<nn::Linear>("fc", LinearOptions{.in_features = in, .out_features = options.classes});
  return model;
}

}  // namespace troupe

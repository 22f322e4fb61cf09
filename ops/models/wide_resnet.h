#pragma once
#include "ops/models/image_options.h"
#include "ops/nn/layers.h"
#include "runtime/error.h"

namespace troupe {

/// The wide ResNet of Sigma2's guide "PyTorch on Olivia" (after S. Zagoruyko, N. Komodakis, "Wide
/// residual networks", BMVC 2016) with free widths. Samples of 28 to 55 pixels a side.
///
/// Blocks: input_block, block1, block2, pool1, block3, block4, pool2, block5, block6, pool, flat,
/// fc. A block is z = layer2(dropout(layer1(x))) + residual, where a layer is convolution, batch
/// norm and ReLU, and the residual is x or, where the width changes, its 1x1 convolution.
struct WideResNet {
  static constexpr std::string_view name = "wide_resnet";
  std::vector<std::int64_t> widths = {};  ///< channels; four numbers, empty: 16, 16, 32, 64
  std::int64_t classes = 10;
  double dropout = 0.01;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;

  OptionFields options() {
    return {widths_option(widths,
                          "channels of the stem and of the three groups (empty: 16, 16, 32, 64)"),
            classes_option(classes), dropout_option(dropout), convolution_option(convolution)};
  }

  Model make(const SampleSpec& samples) const {
    const auto w = widths.empty() ? std::vector<std::int64_t>{16, 16, 32, 64} : widths;
    if (w.size() != 4)
      throw Error(ErrorCode::bad_options,
                  "`Model::widths` has " + std::to_string(w.size()) + " numbers",
                  "wide_resnet takes four, such as [16, 16, 32, 64]");
    // Two poolings leave 7 to 13 pixels a side, of which AveragePool2d(7) makes one.
    check_images(name, samples, 28, 55);
    check_convolution(convolution, samples);
    check_samples(name, classes, samples);
    Model model;
    const auto block = [&](std::string path, std::int64_t in, std::int64_t out, bool scale) {
      model.add<Block>(std::move(path), BlockOptions{in, out, scale, dropout, convolution});
    };
    model.add<Layer>("input_block",
                     LayerOptions{.in = samples.shape[0], .out = w[0], .algorithm = convolution});
    block("block1", w[0], w[1], true);
    block("block2", w[1], w[1], false);
    model.add<nn::MaxPool2d>("pool1", PoolOptions{});
    block("block3", w[1], w[2], true);
    block("block4", w[2], w[2], false);
    model.add<nn::MaxPool2d>("pool2", PoolOptions{});
    block("block5", w[2], w[3], true);
    block("block6", w[3], w[3], false);
    model.add<nn::AveragePool2d>(
        "pool", PoolOptions{.kernel_h = 7, .kernel_w = 7, .stride_h = 7, .stride_w = 7});
    model.add<nn::Flatten>("flat");
    model.add<nn::Linear>("fc", LinearOptions{.in_features = w[3], .out_features = classes});
    return model;
  }

 private:
  struct BlockOptions {
    std::int64_t in = 0, out = 0;  // channels
    bool scale = false;            // whether a 1x1 convolution adapts the residual
    double dropout = 0.0;
    ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
  };

  struct LayerOptions {
    std::int64_t in = 0, out = 0;  // channels
    double dropout = 0.0;          // after the ReLU
    std::string dropout_path;
    ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
  };

  /// Convolution, batch norm and ReLU: the guide's cbrblock. What follows it is fused into the
  /// norm.
  class Layer final : public nn::Module {
   public:
    Layer(std::string path, const LayerOptions& options)
        : Module(std::move(path)),
          convolution_(
              child<nn::Conv2d>("cbr.0", ConvolutionOptions{.in_channels = options.in,
                                                            .out_channels = options.out,
                                                            .padding_h = 1,
                                                            .padding_w = 1,
                                                            .bias = false,
                                                            .algorithm = options.algorithm})),
          norm_(child<nn::BatchNorm2d>(
              "cbr.1", nn::BatchNormOptions{.features = options.out,
                                            .relu = true,
                                            .dropout = options.dropout,
                                            .dropout_path = options.dropout_path})) {}

    Value forward(Tape& tape, Value x) override { return normalise(tape, convolve(tape, x)); }
    bool begins_with_convolution() const override { return true; }
    Value convolve(Tape& tape, Value x) { return convolution_.forward(tape, x); }
    Value normalise(Tape& tape, Value x, Value residual = {}) {
      return norm_.forward(tape, x, residual);
    }

   private:
    nn::Conv2d& convolution_;
    nn::BatchNorm2d& norm_;
  };

  /// The guide's conv_block.
  class Block final : public nn::Module {
   public:
    Block(std::string path, const BlockOptions& o) : Module(std::move(path)) {
      if (o.scale)
        scale_ = &child<nn::Conv2d>("scale", ConvolutionOptions{.in_channels = o.in,
                                                                .out_channels = o.out,
                                                                .kernel_h = 1,
                                                                .kernel_w = 1,
                                                                .algorithm = o.algorithm});
      layer1_ = &child<Layer>("layer1", LayerOptions{.in = o.in,
                                                     .out = o.out,
                                                     .dropout = o.dropout,
                                                     .dropout_path = this->path() + ".dropout",
                                                     .algorithm = o.algorithm});
      layer2_ = &child<Layer>("layer2",
                              LayerOptions{.in = o.out, .out = o.out, .algorithm = o.algorithm});
    }

    Value forward(Tape& tape, Value x) override {
      const Value inner = layer2_->convolve(tape, layer1_->forward(tape, x));
      const Value residual = scale_ ? scale_->forward(tape, x) : x;
      return layer2_->normalise(tape, inner, residual);
    }

   private:
    nn::Conv2d* scale_ = nullptr;  // owned as children, as are the layers
    Layer* layer1_ = nullptr;
    Layer* layer2_ = nullptr;
  };
};

}  // namespace troupe

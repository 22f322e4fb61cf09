#pragma once
#include "ops/models/image_options.h"
#include "ops/nn/layers.h"
#include "runtime/error.h"

namespace troupe {

/// Linear layers with a ReLU between each two. The samples may have any shape. In PyTorch an
/// nn.ModuleList `layers` of Linear. Blocks: flatten, layers.0, layers.1, ….
struct Mlp {
  static constexpr std::string_view name = "mlp";
  std::vector<std::int64_t> widths = {};  ///< hidden sizes; empty: 128, 64
  std::int64_t classes = 10;

  OptionFields options() {
    return {widths_option(widths, "hidden sizes (empty: 128, 64)"), classes_option(classes)};
  }

  Model make(const SampleSpec& samples) const {
    check_samples(name, classes, samples);
    constexpr std::size_t most_widths = 64;
    if (widths.size() > most_widths)
      throw Error(ErrorCode::bad_options,
                  "`Model::widths` has " + std::to_string(widths.size()) + " numbers",
                  "give at most " + std::to_string(most_widths));
    const auto hidden = widths.empty() ? std::vector<std::int64_t>{128, 64} : widths;
    Model model;
    model.add<nn::Flatten>("flatten");
    std::int64_t features = samples.shape.element_count();
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      model.add<LinearRelu>("layers." + std::to_string(i),
                            LinearOptions{.in_features = features, .out_features = hidden[i]});
      features = hidden[i];
    }
    model.add<nn::Linear>("layers." + std::to_string(hidden.size()),
                          LinearOptions{.in_features = features, .out_features = classes});
    return model;
  }

 private:
  class LinearRelu final : public nn::Module {
   public:
    LinearRelu(const std::string& path, LinearOptions options)
        : Module(path), linear_(path, options), relu_(path) {}

    void declare(StateSpec& spec) override { linear_.declare(spec); }
    Value forward(Tape& tape, Value x) override {
      return relu_.forward(tape, linear_.forward(tape, x));
    }

   private:
    nn::Linear linear_;
    nn::Relu relu_;
  };
};

}  // namespace troupe

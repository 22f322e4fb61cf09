#include <fmt/format.h>

#include "ops/models/models.h"
#include "ops/nn/layers.h"

namespace troupe::models {
namespace {

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

}  // namespace

Model mlp(const ModelOptions& options) {
  std::vector<std::int64_t> hidden = options.widths;
  if (hidden.empty()) hidden = {128, 64};
  Model model;
  model.add<nn::Flatten>("flatten");
  std::int64_t features = options.in_channels * options.height * options.width;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    model.add<LinearRelu>(fmt::format("layers.{}", i),
                          LinearOptions{.in_features = features, .out_features = hidden[i]});
    features = hidden[i];
  }
  model.add<nn::Linear>(fmt::format("layers.{}", hidden.size()),
                        LinearOptions{.in_features = features, .out_features = options.classes});
  return model;
}

}  // namespace troupe::models

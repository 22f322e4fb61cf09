// The troupe command with a model and a data set of one's own: every verb knows them.
//
//     ./own_command options                          # lists model.width and data.turns as well
//     ./own_command plan spirals.yaml
//     ./own_command train spirals.yaml -o run
//     ./own_command launch --standalone --nproc-per-node 2 -- train spirals.yaml -o two
//     ./own_command eval run
#include <troupe/troupe.h>

#include <cmath>
#include <memory>
#include <numbers>

using namespace troupe;

/// Reads points of two spirals: which of them is a point on?
class SpiralReader final : public SampleReader {
 public:
  SpiralReader(double turns, const DatasetOptions& options) : turns_(turns), options_(options) {}

  std::string_view name() const override { return "spirals"; }
  SampleSpec samples() const override { return {.shape = {2}, .classes = 2}; }
  std::int64_t count(Split split) const override {
    return options_.taken(split, split == Split::train ? 1024 : 256);
  }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override {
    const RandomKey key{.seed = options_.seed, .step = split == Split::train ? 0u : 1u};
    const double along = uniform_float(key.block(static_cast<std::uint32_t>(index))[0]);
    const double angle = std::numbers::pi * (2 * turns_ * along + static_cast<double>(index % 2));
    sample.data<float>()[0] = static_cast<float>((0.2 + along) * std::cos(angle));
    sample.data<float>()[1] = static_cast<float>((0.2 + along) * std::sin(angle));
    target.data<std::int64_t>()[0] = index % 2;
  }

 private:
  double turns_;
  DatasetOptions options_;
};

/// The data set as options files name it.
struct Spirals {
  static constexpr std::string_view name = "spirals";
  double turns = 0.5;

  OptionFields options() {
    return {field("data.turns", turns, "turns of a spiral", {.above = 0, .at_most = 10})};
  }
  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const {
    return std::make_shared<SpiralReader>(turns, options);
  }
};

/// Two hidden layers.
struct Perceptron {
  static constexpr std::string_view name = "perceptron";
  std::int64_t width = 32;

  OptionFields options() { return {field("model.width", width, "hidden size", {.at_least = 1})}; }
  Model make(const SampleSpec& samples) const {
    Model model;
    std::int64_t features = samples.shape.element_count();
    for (const char* path : {"hidden.0", "hidden.1"}) {
      model.add<nn::Sequential>(path)
          .add<nn::Linear>("0", LinearOptions{.in_features = features, .out_features = width})
          .add<nn::Layer<primitives::Activate>>("1", ActivationFunction::tanh);
      features = width;
    }
    model.add<nn::Linear>("output",
                          LinearOptions{.in_features = features, .out_features = samples.classes});
    return model;
  }
};

int main(int argc, char** argv) {
  return run_command(argc, argv, {.models = {Perceptron{}}, .datasets = {Spirals{}}});
}

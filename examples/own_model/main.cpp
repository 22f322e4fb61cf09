// A model, a data set and a transform of one's own, trained, evaluated, resumed and fine-tuned, in
// one or several processes.
//
//     ./own_model 10                                                          # 10 epochs
//     ./own_model 20                                                          # resumes, 10 more
//     ./own_model 20 23                            # ends after step 23, in the middle of an epoch
//     ./own_model 5 0 w.pt      # 5 epochs that begin with weights of another run, or of PyTorch
//     troupe launch --standalone --nproc-per-node 2 -- ./own_model 20
//
// Checkpoints are in the folder `checkpoints`, the weights alone in weights.safetensors.
#include <troupe/troupe.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace troupe;

/// Points of two spirals: which of them is a point on?
class Spirals final : public SampleReader {
 public:
  std::string_view name() const override { return "spirals"; }
  SampleSpec samples() const override { return {.shape = {2}, .classes = 2}; }
  std::int64_t count(Split split) const override { return split == Split::train ? 1024 : 256; }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override {
    const RandomKey key{.seed = split == Split::train ? 1u : 2u};
    const double along = uniform_float(key.block(static_cast<std::uint32_t>(index))[0]);
    const double angle = 3 * along + (index % 2 == 0 ? 0.0 : M_PI);
    sample.data<float>()[0] = static_cast<float>((0.2 + along) * std::cos(angle));
    sample.data<float>()[1] = static_cast<float>((0.2 + along) * std::sin(angle));
    target.data<std::int64_t>()[0] = index % 2;
  }
};

/// Turns a training point about the origin by a small angle, another one in each epoch. The numbers
/// come from the key, so they are the same after a resumption and in any process.
void turn(Tensor sample, const RandomKey& key) {
  const float angle = 0.1F * (2 * uniform_float(key.block(0)[0]) - 1);
  float* const point = sample.data<float>();
  const float x = point[0], y = point[1];
  point[0] = std::cos(angle) * x - std::sin(angle) * y;
  point[1] = std::sin(angle) * x + std::cos(angle) * y;
}

/// Two hidden layers. Its option may stand in a checkpoint's options.
struct Perceptron {
  static constexpr std::string_view name = "perceptron";
  std::int64_t width = 32;

  OptionFields options() { return {field("model.width", width, "hidden size", {.at_least = 1})}; }
  Model make(const SampleSpec& samples) const {
    const std::int64_t inputs = samples.shape.element_count();
    Model model;
    model.add<nn::Sequential>("hidden.0")
        .add<nn::Linear>("0", LinearOptions{.in_features = inputs, .out_features = width})
        .add<nn::Relu>("1");
    model.add<nn::Sequential>("hidden.1")
        .add<nn::Linear>("0", LinearOptions{.in_features = width, .out_features = width})
        .add<nn::Relu>("1");
    model.add<nn::Linear>("output",
                          LinearOptions{.in_features = width, .out_features = samples.classes});
    return model;
  }
};

RunReport train(std::int64_t epochs, std::uint32_t most_steps, const std::filesystem::path& weights,
                const std::stop_token& stop) {
  const auto world = JoinedWorld::join({}, stop);
  const std::uint32_t process = world ? world->process() : 0;
  PipelineOptions pipeline{.model = Perceptron{.width = 24},
                           .partition = {2, 1},
                           .processes = world ? world->processes() : 1,
                           .data = {.dataset = std::make_shared<Spirals>(), .transform = turn},
                           .micro_batches = 4,
                           .epochs = epochs,
                           .max_steps = most_steps,
                           .rate = {.lr = 0.2},
                           .on_evaluation =
                               [](const Evaluation& seen) {
                                 std::printf("step %u: %ld of %ld right\n", seen.step,
                                             static_cast<long>(seen.correct.value_or(0)),
                                             static_cast<long>(seen.count));
                               },
                           .writer = CheckpointWriterOptions{.folder = "checkpoints"}};
  if (std::filesystem::exists("checkpoints")) {
    resume_from(pipeline, "checkpoints", process);
  } else if (!weights.empty()) {
    const WeightsFile file = open_weights(find_weights(weights));
    const PartialWeights fitting = partial_weights(pipeline, file.tensors, file.name());
    pipeline.initial = states_from(pipeline, process, fitting.tensors);
  }

  const Timeline timeline = timeline_of(pipeline);
  const Graph graph = build_pipeline(pipeline);
  pipeline.initial.clear();  // the graph has these states until its first commit
  RunOptions options{
      .threads = 2,
      .steps = {.first = timeline.first, .count = timeline.steps, .snapshot_at_end = true},
      .stop = stop};
  if (world) world->connect(graph, options);
  RunReport report = run(graph, options);
  if (world) world->leave();
  if (!world || world->leads()) {
    const WeightsFile last = open_weights(find_weights("checkpoints"));
    stream_safetensors("weights.safetensors", last.tensors).value();
    std::printf("loss of the checkpoint on the test set: %.9f\n",
                evaluate(pipeline, last.tensors).loss);
  }
  return report;
}

int main(int argc, char** argv) {
  const std::int64_t epochs = argc > 1 ? std::atoi(argv[1]) : 10;
  const auto most_steps = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 0);  // 0: all
  const std::filesystem::path weights = argc > 3 ? argv[3] : "";
  return run_main(
      [&](const std::stop_token& stop) { return train(epochs, most_steps, weights, stop); });
}

// An own actor in a graph that the library has built. It receives the sum of a stage's gradients
// and smooths its norm. Its state is committed with each step, so a failure within a step does not
// change its numbers. The program exits with 1 if one did.
#include <troupe/troupe.h>

#include <any>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

using namespace troupe;

/// The norm of one step's gradient, and its exponential moving average. Emitted after each commit.
struct Norm {
  double now = 0;
  double smooth = 0;
  bool operator==(const Norm&) const = default;
};

class GradientNorm final : public Actor {
 public:
  Input<ReducedGradient> gradient{this, "gradient"};

  bool ready() const override { return gradient.ready() && !held_; }

  ActionLabel act() override {
    held_ = gradient.take();
    const MessageKey key = held_->header.key;
    // This step is already committed: the previous incarnation failed before it emitted.
    if (key.step < steps_) {
      conclude();
      return {"norm", key};
    }
    const Tensor& weights = (*held_)->weights;
    double sum = 0;
    if (weights.defined())  // with staleness there may be no sum for this step
      for (const double g : weights.elements<float>()) sum += g * g;
    next_.now = std::sqrt(sum);
    next_.smooth = key.step == 0 ? next_.now : 0.9 * committed_.smooth + 0.1 * next_.now;
    vote(key.step, std::make_shared<const Norm>(next_));
    return {"norm", key};
  }

  bool votes() const override { return true; }

  void on_commit(const Commit& commit) override {
    if (commit.step < steps_) return;  // a replacement receives the newest commit again
    committed_ = next_;
    steps_ = commit.step + 1;
    conclude();
  }

  void restore(const CommittedState& state, std::uint32_t steps) override {
    if (state) committed_ = *std::static_pointer_cast<const Norm>(state);
    steps_ = steps;
  }

 private:
  // The event and the credit leave this actor together, or neither does.
  void conclude() {
    emit(committed_);
    gradient.release(*held_);  // a replacement does not receive it again
    held_.reset();
  }

  std::optional<Held<ReducedGradient>> held_;  // voted for, not committed
  Norm next_, committed_;
  std::uint32_t steps_ = 0;  // committed steps in `committed_`
};

std::vector<Norm> train(std::vector<FaultOptions> faults) {
  const PipelineOptions pipeline{.model = Mlp{.widths = {64, 32}},
                                 .partition = {2, 2},
                                 .data = {.dataset = open_dataset(Synthetic{.count = 512})},
                                 .micro_batches = 4,
                                 .evaluates = false};
  Graph graph = build_pipeline(pipeline);
  const auto norm = graph.add<GradientNorm>("norm");
  graph.connect(graph.find<Reducer>("reducer/0"), &Reducer::reduced, norm, &GradientNorm::gradient);

  std::vector<Norm> seen;
  run(graph,
      {.threads = 2,
       .steps = {.count = timeline_of(pipeline).steps},
       .faults = std::move(faults),
       .on_event = [&](const std::any& event) { seen.push_back(std::any_cast<Norm>(event)); },
       .on_failure =
           [](const FailureReport& failure) {
             std::printf("after step %u: %s failed (%s) and was replaced\n", failure.steps,
                         failure.actor.c_str(), failure.cause.c_str());
           }});
  return seen;
}

int compare() {
  const auto calm = train({});
  for (std::size_t step = 0; step < calm.size(); ++step)
    std::printf("step %zu  gradient norm %.4f  smoothed %.4f\n", step + 1, calm[step].now,
                calm[step].smooth);
  const auto stormy = train({{.actor = "norm", .step = 3}, {.actor = "stage/1", .step = 5}});
  const bool same = stormy == calm;
  std::printf("%s\n", same ? "the same numbers with and without failures" : "the numbers differ");
  return same ? 0 : 1;
}

// An error ends the program with its message and remedy.
int main() { return run_main(compare); }

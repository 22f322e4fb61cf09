// One program, one or several processes. Two stages, and two actors of one's own: a meter beside
// the second stage, and a display in process 0 that hears from it by a message of its own.
//
//     ./across_processes                                                     # one process
//     troupe launch --standalone --nproc-per-node 2 -- ./across_processes    # two
//     srun -n 2 ./across_processes                                           # under Slurm
//
// The same numbers each time.
#include <troupe/troupe.h>

#include <cmath>
#include <cstdio>
#include <optional>

using namespace troupe;

/// The norm of a stage's gradient. It leaves its process, so it says what it is made of.
struct Reading {
  double norm = 0;
  static void members(auto& self, auto& visit) { visit(self.norm); }
};

class Meter final : public Actor {
 public:
  Input<ReducedGradient> gradient{this, "gradient"};
  Output<Reading> reading{this, "reading"};

  ActionLabel act() override {
    const auto held = gradient.take();
    double sum = 0;
    if (held->weights.defined())  // with staleness there may be no sum for this step
      for (const double g : held->weights.elements<float>()) sum += g * g;
    reading.send(held.header, {std::sqrt(sum)});
    gradient.release(held);
    return {"norm", held.header.key};
  }
};

/// Votes, so that a step counts only when its reading is here.
class Display final : public Actor {
 public:
  Input<Reading> reading{this, "reading"};

  bool ready() const override { return reading.ready() && !held_; }
  ActionLabel act() override {
    held_ = reading.take();
    vote(held_->header.key.step, nullptr);
    return {"show", held_->header.key};
  }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override {
    if (!held_) return;
    std::printf("step %u  gradient norm %.6f\n", commit.step + 1, (*held_)->norm);
    reading.release(*held_);
    held_.reset();
  }

 private:
  std::optional<Held<Reading>> held_;
};

RunReport train(const std::stop_token& stop) {
  // Null unless a launcher started several processes.
  const auto world = JoinedWorld::join({}, stop);
  const PipelineOptions pipeline{.model = Mlp{.widths = {64, 32}},
                                 .partition = {2, 2},
                                 .processes = world ? world->processes() : 1,
                                 .data = {.dataset = open_dataset(Synthetic{.count = 512})},
                                 .micro_batches = 4,
                                 .evaluates = false};
  Graph graph = build_pipeline(pipeline);
  const auto meter = graph.add<Meter>("meter");
  const auto display = graph.add<Display>("display");
  graph.place(meter, process_of(pipeline, 1, 0));
  graph.connect(graph.find<Reducer>("reducer/1"), &Reducer::reduced, meter, &Meter::gradient);
  graph.connect(meter, &Meter::reading, display, &Display::reading);

  RunOptions options{.threads = 2, .steps = {.count = timeline_of(pipeline).steps}, .stop = stop};
  if (world) world->connect(graph, options);
  RunReport report = run(graph, options);
  if (world) world->leave();
  return report;
}

int main() { return run_main(train); }

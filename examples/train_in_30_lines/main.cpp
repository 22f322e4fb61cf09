// Trains a wide ResNet as a pipeline of two stages: an actor graph, connected by hand.
#include <troupe/troupe.h>

using namespace troupe;

RunReport train(const std::stop_token& stop) {
  const Dataset data = open_dataset(Synthetic{.count = 1280});
  const SamplerOptions batches{.samples = data.count(Split::train), .micro_batches = 4};
  const Timeline timeline = timeline_of(batches, 2);  // two epochs of 20 steps of 64 samples
  const ModelSource model = WideResNet{.widths = {8, 8, 16, 32}};
  const LearningRateOptions rate{.lr = 0.05};
  const auto front_program =
      network_program({.model = model, .samples = data.samples(), .blocks = {{.last = 4}}});
  const auto back_program =
      network_program({.model = model, .samples = data.samples(), .blocks = {{.first = 4}}});

  Graph graph;
  const auto loader =
      graph.add<Loader>("loader", {.dataset = data, .sampler = batches, .timeline = timeline});
  const auto front = graph.add<Stage>(
      "front", {.program = front_program, .schedule = {.credits = 2}, .rate = rate});
  const auto back = graph.add<Stage>("back", {.program = back_program, .stage = 1, .rate = rate});
  const auto loss = graph.add<Loss>("loss");
  const auto monitor =
      graph.add<Monitor>("monitor", print_steps(timeline, data.count(Split::test)));
  const auto writer = graph.add<CheckpointWriter>(
      "writer", {.folder = "checkpoints", .options = options_text(model, data)});

  graph.connect(loader, &Loader::samples, front, &Stage::input, {.slots = 4});
  graph.connect(loader, &Loader::targets, loss, &Loss::targets, {.slots = 4});
  graph.connect(front, &Stage::output, back, &Stage::input);
  graph.connect(back, &Stage::output, loss, &Loss::logits);
  graph.connect(loss, &Loss::logits_gradient, back, &Stage::output_gradient);
  graph.connect(back, &Stage::input_gradient, front, &Stage::output_gradient);
  graph.connect(loss, &Loss::score, monitor, &Monitor::score);
  for (const auto& [name, stage] : {std::pair{"front/reducer", front}, {"back/reducer", back}}) {
    const auto reducer = graph.add<Reducer>(name);
    graph.connect(stage, &Stage::gradient, reducer, &Reducer::gradient);
    graph.connect(reducer, &Reducer::reduced, stage, &Stage::reduced);
    graph.connect(stage, &Stage::snapshot, writer, &CheckpointWriter::snapshot);
  }
  const StepOptions steps{.count = timeline.steps, .snapshot_at_end = true};
  return run(graph, {.threads = 2, .steps = steps, .stop = stop});
}

int main() { return run_main(train); }

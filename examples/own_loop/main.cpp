// Trains in a loop, as a PyTorch script does: without actors, checkpoints and recovery. The weights
// are those of `troupe train` with the same options.
#include <troupe/troupe.h>

#include <cstdio>

using namespace troupe;

void train() {
  const Stream stream{.threads = 2};
  const Dataset data = open_dataset(Synthetic{.count = 1280});
  const TransformOptions normalised{.mean = {0.286}, .std = {0.353}};
  const BatchMaker training(data, Split::train, normalised), testing(data, Split::test, normalised);
  const SamplerOptions batches{.samples = data.count(Split::train), .batch_size = 64};
  Sampler sampler(batches), in_order = Sampler::for_evaluation(data.count(Split::test), batches);
  Model model = WideResNet{.widths = {8, 8, 16, 32}}.make(data.samples());
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, DType::f32, stream);
  network.use(initial_state(network.spec(), DType::f32, 1));
  const Optimizer optimizer = Sgd{.momentum = 0.9, .weight_decay = 5e-4};
  const LossFunction cross_entropy{};

  const std::int64_t steps = 2 * sampler.batches_per_epoch();
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Batch batch = training.make(sampler.micro_batches(step, 0).front());
    const auto pass = network.forward(batch.samples, {.seed = 1, .step = step}, false);
    const double scale = 1.0 / static_cast<double>(batch.samples.dim(0));
    const LossOutput loss =
        loss_of(stream, cross_entropy, pass->result(), batch.targets, scale, true);
    network.backward(*pass, loss.logits_grad);
    network.use(network.step(optimizer, 0.05, pass->gradients, {pass->statistics}));
    if (step % 10 == 9)
      std::printf("step %u: loss %.4f\n", step + 1, scale * read_totals(stream, loss).loss_sum);
  }

  long correct = 0;
  for (std::int64_t step = 0; step < in_order.batches_per_epoch(); ++step) {
    const Batch batch = testing.make(in_order.micro_batches(step, 0).front());
    const LossOutput loss =
        loss_of(stream, cross_entropy, network.evaluate(batch.samples), batch.targets, 1, false);
    correct += static_cast<long>(read_totals(stream, loss).correct);
  }
  std::printf("%ld of %ld right\n", correct, static_cast<long>(data.count(Split::test)));
  write_safetensors("weights.safetensors", named_tensors(network.spec(), *network.state(), false))
      .value();
}

int main() { return run_main(train); }

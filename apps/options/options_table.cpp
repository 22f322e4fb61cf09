#include "apps/options/options_table.h"

#include <utility>

#include "actors/schedule.h"

namespace troupe {
namespace {

constexpr double many = 1e12;              // samples: far above any run, far below overflow
constexpr double most_steps = 4294967295;  // they travel as 32-bit numbers
constexpr double largest_size = 1e6;       // of one axis of a tensor
constexpr double largest_count = 4096;     // of stages, replicas, threads
constexpr double largest_staleness = 64;   // each costs memory for one more step's gradients

void add_run(OptionFields& fields, Options& o) {
  fields.push_back(field("seed", o.seed, "all random numbers follow from it"));
  fields.push_back(field("precision", o.precision,
                         "arithmetic; f64 runs plain reference kernels, for checking",
                         {.choices = {"f32", "f64"}, .synonyms = {"dtype", "base_precision"}}));
  fields.push_back(field("convolution", o.convolution,
                         "algorithm; auto takes Winograd where it is faster",
                         {.choices = {"auto", "direct", "winograd"}}));
  fields.push_back(
      field("trace", o.trace, "write trace.json, which Perfetto and chrome://tracing show"));
}

void add_model(OptionFields& fields, Options::Model& m) {
  fields.push_back(field("model.name", m.name, "what is trained",
                         {.choices = {"wide_resnet", "mnist_cnn", "mlp"}}));
  fields.push_back(field("model.in_channels", m.in_channels, "channels of a sample",
                         {.at_least = 1, .at_most = largest_size, .synonyms = {"channels"}}));
  fields.push_back(
      field("model.widths", m.widths,
            "wide_resnet: channels of the stem and of the three groups (16, 16, 32, 64); "
            "mlp: hidden sizes (128, 64); empty: these",
            {.at_least = 1, .at_most = largest_size, .synonyms = {"width", "hidden"}}));
  fields.push_back(field("model.classes", m.classes, "outputs of the model",
                         {.at_least = 2, .at_most = largest_size, .synonyms = {"num_classes"}}));
  fields.push_back(field("model.dropout", m.dropout, "probability that an activation is dropped",
                         {.at_least = 0, .below = 1}));
  fields.push_back(field("model.weights", m.weights,
                         "safetensors file or checkpoint to start from; empty: none",
                         {.synonyms = {"checkpoint", "pretrained"}}));
}

void add_data(OptionFields& fields, Options::Data& d) {
  fields.push_back(field("data.name", d.name, "data set",
                         {.choices = {"fashion_mnist", "synthetic"}, .synonyms = {"dataset"}}));
  fields.push_back(
      field("data.path", d.path, "folder of its files; empty: where Debian's package puts them"));
  fields.push_back(field("data.shape", d.shape, "synthetic: channels, height and width of a sample",
                         {.at_least = 1, .at_most = largest_size}));
  fields.push_back(field("data.classes", d.classes, "synthetic: number of classes",
                         {.at_least = 2, .at_most = largest_size}));
  fields.push_back(field("data.count", d.count, "synthetic: training samples",
                         {.at_least = 1, .at_most = many}));
  fields.push_back(field("data.mean", d.mean,
                         "of pixels in [0, 1], for all channels or for each: a pixel p becomes "
                         "(p / 255 - mean) / std"));
  fields.push_back(field("data.std", d.std, "as mean", {.above = 0}));
  fields.push_back(field("data.shuffle", d.shuffle, "another order in each epoch"));
  fields.push_back(
      field("data.augment", d.augment, "changes to training samples, in this order",
            {.choices = {"flip", "crop"}, .synonyms = {"augmentation", "transforms"}}));
  fields.push_back(field("data.drop_last", d.drop_last,
                         "leave out a last batch that is smaller than the others"));
  fields.push_back(field("data.workers", d.workers,
                         "threads that prepare batches; 0: the loader itself",
                         {.at_least = 0, .at_most = largest_count, .synonyms = {"num_workers"}}));
  fields.push_back(field("data.limit", d.limit, "only the first so many training samples; 0: all",
                         {.at_least = 0, .at_most = many}));
  fields.push_back(field("data.test_limit", d.test_limit,
                         "only the first so many test samples; 0: all",
                         {.at_least = 0, .at_most = many}));
}

void add_train(OptionFields& fields, Options::Train& t) {
  fields.push_back(
      field("train.epochs", t.epochs, "passes over the training samples",
            {.at_least = 1, .at_most = 1e6, .synonyms = {"num_epochs", "max_epochs"}}));
  fields.push_back(
      field("train.steps", t.steps,
            "ends the run after so many steps, at the rates of train.epochs; 0: as the "
            "epochs say",
            {.at_least = 0, .at_most = most_steps, .synonyms = {"max_steps", "num_steps"}}));
  fields.push_back(field("train.batch_size", t.batch_size,
                         "samples of one step, over all replicas and micro-batches",
                         {.at_least = 1, .at_most = largest_size, .synonyms = {"batch", "bs"}}));
  fields.push_back(field("train.micro_batches", t.micro_batches,
                         "parts of a batch, over all replicas, which follow one another "
                         "through the pipeline; batch norm averages over one of them",
                         {.at_least = 1, .at_most = largest_count, .synonyms = {"microbatches"}}));
  fields.push_back(
      field("train.lr", t.lr, "learning rate; of one_cycle its highest",
            {.at_least = 0, .at_most = 1e6, .synonyms = {"learning_rate", "base_lr", "rate"}}));
  fields.push_back(field("train.momentum", t.momentum, "of SGD", {.at_least = 0, .below = 1}));
  fields.push_back(field("train.weight_decay", t.weight_decay, "of SGD, added to the gradient",
                         {.at_least = 0, .at_most = 1e6, .synonyms = {"decay", "wd"}}));
  fields.push_back(field("train.nesterov", t.nesterov, "Nesterov's momentum"));
  fields.push_back(
      field("train.schedule", t.schedule,
            "how the rate changes over train.epochs, also where train.steps ends the run "
            "earlier: one_cycle and cosine end near 0 only with the last epoch",
            {.choices = {"constant", "step", "cosine", "one_cycle"},
             .synonyms = {"lr_schedule", "scheduler"}}));
  fields.push_back(field("train.warmup_steps", t.warmup_steps,
                         "steps in which the rate rises to its highest",
                         {.at_least = 0, .at_most = most_steps, .synonyms = {"warmup"}}));
  fields.push_back(field("train.step_epochs", t.step_epochs,
                         "schedule step: epochs between two drops",
                         {.at_least = 1, .at_most = many, .synonyms = {"step_size"}}));
  fields.push_back(field("train.step_factor", t.step_factor,
                         "schedule step: what a drop multiplies the rate by",
                         {.above = 0, .at_most = 1, .synonyms = {"gamma"}}));
  fields.push_back(field("train.stop_on_nan", t.stop_on_nan,
                         "fail at the first loss that is not finite; its step is not kept"));
  fields.push_back(
      field("train.evaluate", t.evaluate, "count the test samples at the end of each epoch"));
}

void add_parallel(OptionFields& fields, Options::Parallel& p) {
  fields.push_back(field("parallel.pipeline", p.pipeline,
                         "stages that the model is partitioned into",
                         {.at_least = 1, .at_most = largest_count, .synonyms = {"pp", "stages"}}));
  fields.push_back(
      field("parallel.data", p.data, "replicas of the whole pipeline",
            {.at_least = 1, .at_most = largest_count, .synonyms = {"dp", "replicas"}}));
  fields.push_back(field(
      "parallel.schedule", p.schedule,
      "order of a stage's work: all forward passes first; one forward, one "
      "backward; the same with more forward passes ahead, which takes more memory "
      "and waits less for slow stages and messages; zb_*: like 1f1b and eager_1f1b, with gradients "
      "of weights put off, so that stages wait less for those of activations",
      {.choices = known_schedules()}));
  fields.push_back(field("parallel.partition", p.partition,
                         "blocks that each stage takes; auto balances their cost",
                         {.at_least = 1, .at_most = largest_count, .empty_word = "auto"}));
  fields.push_back(field("parallel.actor_threads", p.actor_threads,
                         "threads that run actors; 0: one for each stage, at most one a core",
                         {.at_least = 0, .at_most = largest_count, .synonyms = {"threads"}}));
  fields.push_back(field("parallel.intra_op_threads", p.intra_op_threads, "threads of one kernel",
                         {.at_least = 1, .at_most = largest_count, .synonyms = {"omp_threads"}}));
  fields.push_back(field("parallel.bucket_cap_mb", p.bucket_cap_mb,
                         "MiB of gradients that are reduced together, at most, while a stage goes "
                         "further back; a block that is larger goes alone",
                         {.above = 0, .at_most = 1e6, .synonyms = {"bucket_size", "bucket_cap"}}));
  fields.push_back(field("parallel.aggregation", p.aggregation,
                         "asynchronous applies the sum of a step's gradients parallel.staleness "
                         "steps later, and makes it while these compute",
                         {.choices = {"synchronous", "asynchronous"}}));
  fields.push_back(field("parallel.staleness", p.staleness,
                         "asynchronous: sums that are on their way, and not in the weights",
                         {.at_least = 1, .at_most = largest_staleness, .synonyms = {"delay"}}));
  fields.push_back(field("parallel.transport", p.transport,
                         "how tensors travel between processes; auto: shared memory within a host, "
                         "Gloo between hosts",
                         {.choices = {"auto", "shm", "gloo"}, .synonyms = {"backend"}}));
  fields.push_back(
      field("parallel.interface", p.interface,
            "network interface between hosts, as eth0; empty: the one that leads there",
            {.synonyms = {"ifname", "socket_ifname"}}));
  fields.push_back(field("parallel.timeout", p.timeout,
                         "for processes to appear and to answer; all other times derive from it",
                         {.at_least = 1, .at_most = 1e6}));
}

void add_writing(OptionFields& fields, Options& o) {
  fields.push_back(
      field("checkpoint.every_steps", o.checkpoint.every_steps,
            "steps between two checkpoints, or more while one is being written; 0: only at the end",
            {.at_least = 0, .at_most = most_steps, .synonyms = {"interval", "every"}}));
  fields.push_back(field("checkpoint.keep", o.checkpoint.keep,
                         "newest checkpoints that are kept; 0: all",
                         {.at_least = 0, .at_most = many}));
  fields.push_back(field("log.every_steps", o.log.every_steps,
                         "steps between two rows of train.csv",
                         {.at_least = 1, .at_most = most_steps, .synonyms = {"log_interval"}}));
}

std::vector<OptionField> fault_fields(Options::Fault& fault) {
  return {field("actor", fault.actor,
                "as \"stage/1\", or \"stage/1/0\" of replica 0; loader, loss, reducer/0, monitor, "
                "writer"),
          field("step", fault.step, "of the run", {.at_least = 0, .at_most = most_steps}),
          field("micro_batch", fault.micro_batch, "of the step",
                {.at_least = 0, .at_most = largest_count})};
}

void add_recovery(OptionFields& fields, Options& o) {
  fields.push_back(field("restarts.max", o.restarts.max,
                         "restarts of one actor within restarts.within, before the run fails",
                         {.at_least = 0, .at_most = 1e6}));
  fields.push_back(field("restarts.within", o.restarts.within, "the time that restarts.max is for",
                         {.at_least = 1, .at_most = 1e9}));
  fields.push_back(list_field<Options::Fault>(
      "faults", o.faults, "handlers that throw, once each, to see recovery work", fault_fields));
}

}  // namespace

OptionFields option_fields(Options& options) {
  OptionFields fields;
  add_run(fields, options);
  add_model(fields, options.model);
  add_data(fields, options.data);
  add_train(fields, options.train);
  add_parallel(fields, options.parallel);
  add_writing(fields, options);
  add_recovery(fields, options);
  return fields;
}

std::string resolved_yaml(const Options& options) {
  Options copy = options;  // fields are bound to variables; nothing is written through them here
  return write_fields(option_fields(copy));
}

}  // namespace troupe

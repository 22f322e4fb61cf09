#include "apps/options/options_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "actors/schedule.h"
#include "apps/options/precision_field.h"
#include "ops/described_device.h"

namespace troupe {
namespace {

constexpr double many = 1e12;              // samples: far above any run, far below overflow
constexpr double most_steps = 4294967295;  // they travel as 32-bit numbers
constexpr double largest_size = 1e6;       // of one axis of a tensor
constexpr double largest_staleness = 64;   // each costs memory for one more step's gradients

constexpr std::string_view accumulation_hint =
    "train.micro_batches divides train.batch_size: to accumulate 4 batches, set "
    "train.micro_batches to 4 and multiply train.batch_size by 4";
constexpr std::string_view nodes_hint =
    "a launcher starts processes on several hosts: troupe launch --nnodes N, or srun";
constexpr std::string_view processes_hint =
    "parallel.data is the number of replicas; on CPUs, a launcher starts a process for each: "
    "troupe launch --nproc-per-node N -- train FILE -r parallel.data=N";
constexpr std::string_view one_gpu_hint =
    "device: cuda uses one GPU, which all stages and replicas share; more are not supported";
constexpr std::string_view top_k_hint =
    "checkpoint.keep keeps the newest, checkpoint.keep_best also the best by train.monitor";
constexpr std::string_view automatic = "auto";
constexpr std::string_view restart_hint = "to resume, add --restart auto";
constexpr std::string_view output_hint = "the output folder is an argument: -o FOLDER";
constexpr std::string_view no_option_hint = "there is no such option: leave it out";
constexpr std::string_view of_model_hint =
    "it is a part of the model: export the model from PyTorch and set model.file "
    "(docs/from-pytorch.md)";
constexpr std::string_view limit_hint =
    "data.limit and data.test_limit count samples: batches × train.batch_size";
constexpr std::string_view device_batch_hint =
    "train.batch_size is that of a step over all replicas: that of a device × replicas";
constexpr std::string_view sync_norm_hint =
    "there is no synchronised batch norm: it averages over one micro-batch. With parallel.data 1, "
    "train.micro_batches 1 makes that the whole batch";
constexpr std::string_view groups_hint =
    "train.groups sets it for some parameters: train.groups=[{parameters: ['*.bias'], "
    "weight_decay: 0}]";
constexpr std::string_view warmup_hint =
    "train.warmup_steps counts steps: epochs × steps of one, or ratio × steps of the run";
constexpr std::string_view one_cycle_hint =
    "the schedule one_cycle rises from train.lr / 25 for 30 % of the steps and falls to near 0, "
    "PyTorch's defaults; they cannot be changed: leave it out";
constexpr std::string_view gpu_hint = "write cuda for an NVIDIA GPU, or auto";
constexpr std::string_view which_gpu_hint =
    "write cuda: the run takes the first GPU that CUDA_VISIBLE_DEVICES names";
constexpr std::string_view plan_hint = "write cuda; the option --device of plan takes such a name";
constexpr std::string_view amd_hint = "there are no kernels for AMD's GPUs: write cpu";
constexpr std::string_view zero_hint =
    "there is no ZeRO: the stages of parallel.pipeline divide weights, gradients and optimizer "
    "state";
constexpr std::string_view log_hint = "train.csv and train.log are always written: leave it out";
constexpr std::string_view only_these_policies =
    "the policies are auto_augment, of ImageNet, and auto_augment_cifar10";
constexpr std::string_view no_augmix =
    "there is no AugMix; trivial_augment and rand_augment use the same operations";
constexpr std::string_view evaluation_hint =
    "evaluations follow each epoch; train.evaluate false makes none";
constexpr std::string_view means_cross_entropy = "did you mean cross_entropy?";
constexpr std::string_view means_mse = "did you mean mse?";
constexpr std::string_view means_bce = "did you mean bce?";
constexpr std::string_view linear_hint =
    "write polynomial, whose train.power 1 makes it linear; train.warmup_steps is the warm-up";

constexpr std::pair<std::string_view, Augment> augmentations[] = {
    {"flip", Augment::flip},
    {"crop", Augment::crop},
    {"vertical_flip", Augment::vertical_flip},
    {"random_resized_crop", Augment::random_resized_crop},
    {"color_jitter", Augment::color_jitter},
    {"trivial_augment", Augment::trivial_augment},
    {"rand_augment", Augment::rand_augment},
    {"auto_augment", Augment::auto_augment},
    {"auto_augment_cifar10", Augment::auto_augment_cifar10},
    {"random_erasing", Augment::random_erasing}};
constexpr std::pair<std::string_view, LogLevel> log_levels[] = {{"info", LogLevel::info},
                                                                {"debug", LogLevel::debug}};
constexpr std::pair<std::string_view, DeviceChoice> device_names[] = {
    {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
constexpr std::pair<std::string_view, Aggregation> aggregations[] = {
    {"synchronous", Aggregation::synchronous}, {"asynchronous", Aggregation::asynchronous}};

/// The key that chooses.
template <class D>
OptionField name_field(std::string path, Choice<D>& choice, std::string help,
                       const std::vector<std::string_view>& synonyms = {},
                       std::string_view instead = {}) {
  std::vector<std::string_view> names;
  for (const D& definition : choice.all) names.push_back(definition.name());
  return field(std::move(path), choice.name, std::move(help),
               {.choices = std::move(names),
                .synonyms = synonyms,
                .instead = instead,
                .setting = D::setting});
}

/// A key that one or several definitions declare.
struct SharedField {
  OptionField field;                                ///< as the first of them declares it
  std::map<std::string_view, OptionField> by_name;  ///< of each of them
  /// The texts in which they explain it, and which of them each is of.
  std::vector<std::pair<std::string, std::vector<std::string_view>>> helps;
};

/// "algorithm", or "wide_resnet: channels …;\nmlp: hidden sizes …" where not all say so.
std::string help_of(const SharedField& shared, std::size_t definitions) {
  if (shared.helps.size() == 1 && shared.by_name.size() == definitions) return shared.field.help;
  std::vector<std::string> parts;
  for (const auto& [help, names] : shared.helps)
    parts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), help));
  return fmt::format("{}", fmt::join(parts, ";\n"));
}

/// The options of the definitions that the key `chosen_by` chooses from, one field for each key.
/// Reading and writing take the option of the chosen definition. If it does not declare the key,
/// the option has no effect, and reading sets it for all that do.
template <class D>
OptionFields fields_of(Choice<D>& choice, std::string_view chosen_by) {
  std::vector<SharedField> all;
  for (D& definition : choice.all)
    for (OptionField& field : definition.options()) {
      auto shared = std::ranges::find_if(
          all, [&](const SharedField& other) { return other.field.path == field.path; });
      if (shared == all.end()) shared = all.insert(all.end(), SharedField{field, {}, {}});
      const auto same = std::ranges::find_if(
          shared->helps, [&](const auto& known) { return known.first == field.help; });
      if (same != shared->helps.end())
        same->second.push_back(definition.name());
      else
        shared->helps.push_back({field.help, {definition.name()}});
      shared->by_name.emplace(definition.name(), std::move(field));
    }
  OptionFields fields;
  for (SharedField& shared : all) {
    OptionField field = shared.field;
    field.help = help_of(shared, choice.all.size());
    field.only_with.key = chosen_by;
    for (const auto& [name, own] : shared.by_name) field.only_with.values.push_back(name);
    field.read = [by_name = shared.by_name, &choice](const OptionTree& tree) {
      if (const auto own = by_name.find(choice.name); own != by_name.end())
        return own->second.read(tree);
      for (const auto& [name, own] : by_name) own.read(tree);
    };
    field.write = [by_name = shared.by_name, first = shared.field.write, &choice] {
      const auto own = by_name.find(choice.name);
      return own == by_name.end() ? first() : own->second.write();
    };
    fields.push_back(std::move(field));
  }
  return fields;
}

OptionField lr_field(double& lr, std::string path, std::string help) {
  return field(std::move(path), lr, std::move(help),
               {.at_least = 0, .at_most = 1e6, .synonyms = {"learning_rate", "base_lr", "rate"}});
}

/// What a parameter group may set, with the run's values of the optimizer.
struct GroupSettings {
  Choice<Optimizer> optimizer;
  double lr = 0;

  OptionFields fields() {
    OptionFields fields = fields_of(optimizer, "train.optimizer");
    fields.insert(fields.begin(), lr_field(lr, "train.lr", "learning rate"));
    return fields;
  }
};

std::string_view plain_name(const OptionField& field) {
  return std::string_view(field.path).substr(field.path.rfind('.') + 1);
}

/// The keys of a group. A group keeps the texts of its values: what it leaves out is the run's,
/// which may be read later.
OptionFields group_fields(const Options& options, GroupOptions& group) {
  OptionFields fields{
      field("parameters", group.parameters, "shell patterns of names: *, ?, [...]")};
  const auto settings = std::make_shared<GroupSettings>(GroupSettings{options.optimizer});
  for (OptionField setting : settings->fields()) {
    setting.path = plain_name(setting);
    const auto read = setting.read;
    const auto write = setting.write;
    setting.read = [settings, read, write, name = setting.path, &group](const OptionTree& tree) {
      read(tree);
      group.values[name] = write();
    };
    setting.write = [name = setting.path, &group] {
      const auto value = group.values.find(name);
      return value == group.values.end() ? std::string() : value->second;
    };
    fields.push_back(std::move(setting));
  }
  return fields;
}

/// Models may declare keys that belong to no section, such as "convolution".
bool is_top(const OptionField& field) { return field.path.find('.') == std::string::npos; }
bool is_in_section(const OptionField& field) { return !is_top(field); }
void add_all(OptionFields& fields, OptionFields from,
             bool (*wanted)(const OptionField&) = is_in_section) {
  for (OptionField& field : from)
    if (wanted(field)) fields.push_back(std::move(field));
}

OptionField device_field(Options& o) {
  FieldLimits limits{.synonyms = {"accelerator", "gpu"},
                     .hints = {{"no_cuda", "set device to cpu, or to auto for no_cuda=false"}},
                     .value_hints = {{"gpu", gpu_hint},
                                     {"nvidia", gpu_hint},
                                     {"cuda0", which_gpu_hint},
                                     {"cuda1", which_gpu_hint},
                                     {"cuda2", which_gpu_hint},
                                     {"cuda3", which_gpu_hint},
                                     {"rocm", amd_hint},
                                     {"hip", amd_hint},
                                     {"amd", amd_hint},
                                     {"mps", "there is no MPS: write cpu"},
                                     {"tpu", "there are no TPUs: write cpu"}}};
  for (const std::string_view name : described_devices())
    limits.value_hints.emplace_back(name, plan_hint);
  return choice_field("device", o.device, device_names,
                      "where the run computes; cuda: an NVIDIA GPU; auto: a GPU if this build "
                      "has CUDA, one can be used and the run has one process, else the CPU",
                      std::move(limits));
}

void add_run(OptionFields& fields, Options& o) {
  fields.push_back(field(
      "seed", o.pipeline.seed, "seed of all random numbers",
      {.synonyms = {"seed_everything", "random_state", "manual_seed"},
       .hints = {{"benchmark",
                  "no algorithm is chosen by its time; deterministic false lets cuDNN add in any "
                  "order in "
                  "a GPU's convolutions"},
                 {"channels_last", "the precision chooses the layout of images; leave it out"},
                 {"test_only", "the verb eval evaluates a checkpoint"},
                 {"default_root_dir", output_hint},
                 {"output_dir", output_hint},
                 {"dirpath", output_hint},
                 {"pin_memory", no_option_hint},
                 {"torch_compile", no_option_hint},
                 {"persistent_workers", no_option_hint},
                 {"cache_dataset", no_option_hint},
                 {"num_sanity_val_steps", no_option_hint},
                 {"cudnn_benchmark", no_option_hint},
                 {"compile", no_option_hint},
                 {"logger", log_hint},
                 {"enable_progress_bar", "a terminal always has a progress bar: leave it out"},
                 {"zero_optimization", zero_hint},
                 {"zero_stage", zero_hint},
                 {"fsdp",
                  "there is no FSDP: the stages of parallel.pipeline divide weights, gradients "
                  "and optimizer state"},
                 {"callbacks",
                  "train.patience stops early, checkpoint.* says which checkpoints there "
                  "are, train.schedule is the learning rate schedule"}}}));
  fields.push_back(device_field(o));
  std::ranges::move(precision_fields(o.pipeline), std::back_inserter(fields));
  fields.push_back(
      field("deterministic", o.pipeline.stream.deterministic,
            "true: the same options give the same bits; false: on a GPU, convolutions take the "
            "algorithm that cuDNN predicts to be fastest, and the bits may differ from run to run "
            "and after a restart; experimental: no GPU has run it",
            {.synonyms = {"use_deterministic_algorithms", "cudnn_deterministic"},
             .setting = "Stream::deterministic"}));
  fields.push_back(field(
      "cuda_graphs", o.pipeline.cuda_graphs,
      "on a GPU, launch the kernels of a pass together, as CUDA graphs: less work "
      "for the CPU, more memory; same weights (tested on an emulator); experimental: no GPU has "
      "run it",
      {.synonyms = {"cuda_graph", "enable_cuda_graph", "enable_cuda_graphs", "use_cuda_graph",
                    "external_cuda_graph", "cudagraphs", "use_cudagraph", "graph_capture"},
       .setting = "PipelineOptions::cuda_graphs"}));
  add_all(fields, fields_of(o.model, "model.name"), is_top);
  fields.push_back(field("trace", o.run.trace, "write trace.json, for Perfetto or chrome://tracing",
                         {.hints = {{"profiler", "trace=true writes trace.json"}}}));
}

/// model.classes, which may be auto.
OptionField with_automatic_classes(OptionField field, Options& o) {
  field.type = fmt::format("{} or {}", automatic, field.type);
  field.read = [read = field.read, &o](const OptionTree& tree) {
    o.classes_chosen = tree.scalar != automatic;
    if (o.classes_chosen) read(tree);
  };
  field.write = [write = field.write, &o] {
    return o.classes_chosen ? write() : std::string(automatic);
  };
  return field;
}

void add_model(OptionFields& fields, Options& o) {
  fields.push_back(name_field("model.name", o.model, "model to train", {"arch"},
                              "export the model from PyTorch and set model.file "
                              "(docs/from-pytorch.md)"));
  add_all(fields, fields_of(o.model, "model.name"));
  for (OptionField& field : fields)
    if (field.path == "model.classes") field = with_automatic_classes(std::move(field), o);
  fields.push_back(field("model.weights", o.weights,
                         "weights to start from: .pt, .pth or .ckpt of torch.save (FILE#KEY: its "
                         "entry KEY), folder of torch.distributed.checkpoint, safetensors, or "
                         "checkpoint; empty: initial weights of the model",
                         {.synonyms = {"checkpoint", "pretrained"},
                          .hints = {{"resume", restart_hint},
                                    {"resume_from_checkpoint", restart_hint},
                                    {"ckpt_path", restart_hint},
                                    {"start_epoch", restart_hint},
                                    {"drop_path", of_model_hint},
                                    {"stochastic_depth", of_model_hint}}}));
  fields.push_back(
      field("model.strict", o.weights_strict,
            "true: names and shapes of model.weights must match the model, but buffers that "
            "training never changes may be missing; false: load "
            "those that match and initialise the others, as for a new head"));
}

// NOLINTNEXTLINE(readability-function-size): a list
void add_data(OptionFields& fields, Options& o) {
  PipelineData& data = o.pipeline.data;
  fields.push_back(name_field("data.name", o.dataset, "data set", {"dataset"},
                              "image_folder reads folders of images such as ImageNet's, npy, npz, "
                              "hdf5 and csv other data (docs/own-program.md: a data set in C++)"));
  add_all(fields, fields_of(o.dataset, "data.name"));
  for (OptionField& field : fields)  // whichever data set declares it
    if (field.path == "data.path")
      field.synonyms = {"data_path", "data_dir", "data_root", "root", "training_set"};
    else if (field.path == "data.test_fraction")
      field.synonyms = {"validation_set", "validation_split", "val_split"};
  fields.push_back(field("data.mean", data.mean,
                         "mean of pixels in [0, 1], one for all channels or one for each: a pixel "
                         "p becomes (p / 255 - mean) / std; empty: the usual mean of the data set, "
                         "0 if there is none"));
  fields.push_back(field("data.std", data.std,
                         "standard deviation, in the same form as data.mean; empty: the usual one, "
                         "1 if there is none",
                         {.above = 0}));
  fields.push_back(
      field("data.shuffle", data.shuffle, "shuffle the training samples in each epoch"));
  fields.push_back(
      choice_field("data.augment", data.augment, augmentations,
                   "augmentations of training samples, in this order: torchvision's "
                   "transforms of these names, with its defaults (crop pads by 4). "
                   "random_resized_crop only as the first, random_erasing only as "
                   "the last; color_jitter, trivial_augment, rand_augment and "
                   "auto_augment need grey or RGB images",
                   {.synonyms = {"augmentation", "transforms", "transform", "auto_augment",
                                 "trivial_augment", "rand_augment", "randaugment", "random_erase"},
                    .hints = {{"ra_sampler", no_option_hint},
                              {"normalize", "data.mean and data.std normalise images"},
                              {"horizontal_flip", "write data.augment=[flip]"},
                              {"random_crop", "write data.augment=[crop]"},
                              {"cutout", "write data.augment=[random_erasing]"}},
                    .value_hints = {{"randomcrop", "did you mean crop?"},
                                    {"randomhorizontalflip", "did you mean flip?"},
                                    {"horizontalflip", "did you mean flip?"},
                                    {"hflip", "did you mean flip?"},
                                    {"vflip", "did you mean vertical_flip?"},
                                    {"cutmix", "set data.cutmix_alpha"},
                                    {"mixup", "set data.mixup_alpha"},
                                    {"normalize", "set data.mean and data.std"},
                                    {"autoaugmentsvhn", only_these_policies},
                                    {"augmix", no_augmix}}}));
  fields.push_back(field("data.color_jitter", data.color_jitter,
                         "ranges of brightness, contrast, saturation and, if there is a fourth, "
                         "of hue (at most 0.5) for color_jitter in data.augment, such as "
                         "[0.4, 0.4, 0.4, 0.1]",
                         {.at_least = 0, .at_most = 1e3}));
  fields.push_back(field("data.mixup_alpha", data.mix.mixup_alpha,
                         "mix-up: each training sample is mixed with another of its micro-batch; "
                         "its share is drawn from Beta(mixup_alpha, mixup_alpha); 0: none",
                         {.at_least = 0, .at_most = 1e3, .synonyms = {"mixup"}}));
  fields.push_back(field("data.cutmix_alpha", data.mix.cutmix_alpha,
                         "cut-mix: a rectangle of each training image shows another image of its "
                         "micro-batch; 0: none; with mix-up, either is drawn for a micro-batch",
                         {.at_least = 0, .at_most = 1e3, .synonyms = {"cutmix"}}));
  fields.push_back(
      field("data.drop_last", data.drop_last, "drop a last batch that is smaller than the others"));
  fields.push_back(field(
      "data.workers", data.workers,
      "threads that prepare micro-batches ahead, for each replica and in troupe eval; 0: none",
      {.at_least = 0,
       .at_most = largest_count,
       .synonyms = {"num_workers", "dataloader_num_workers"},
       .hints = {{"prefetch_factor",
                  "data.workers prepare micro-batches ahead by themselves: leave it out"}}}));
  fields.push_back(
      field("data.resident", data.resident,
            "keep the images in the memory of the GPU and augment them there, to the same bits "
            "(tested on an emulator); "
            "only u8 images that the data set holds in memory, with no augmentation but flip, "
            "vertical_flip and crop; experimental: no GPU has run it",
            {.synonyms = {"on_gpu", "on_device", "gpu_resident", "preload", "preload_to_gpu",
                          "data_on_gpu", "to_gpu", "keep_on_gpu", "gpu_cache", "cache",
                          "cache_on_gpu", "cache_on_device", "cache_images"}}));
  fields.push_back(
      field("data.limit", o.selection.limit, "maximum number of training samples; 0: all",
            {.at_least = 0,
             .at_most = many,
             .hints = {{"limit_train_batches", limit_hint}, {"overfit_batches", limit_hint}}}));
  fields.push_back(
      field("data.test_limit", o.selection.test_limit, "maximum number of test samples; 0: all",
            {.at_least = 0,
             .at_most = many,
             .hints = {{"limit_val_batches", limit_hint}, {"limit_test_batches", limit_hint}}}));
}

void add_loss(OptionFields& fields, LossFunction& loss) {
  fields.push_back(choice_field(
      "train.loss", loss.kind, loss_names,
      "cross_entropy of classes; mse (mean squared error) or bce (binary cross-entropy of logits) "
      "of numbers; bce also of two classes, with model.classes 1. The accuracy of bce is the "
      "share of samples in which every logit is above 0 exactly where its target is at least 0.5",
      {.synonyms = {"criterion", "loss_function", "objective"},
       .value_hints = {{"ce", means_cross_entropy},
                       {"xent", means_cross_entropy},
                       {"nll", means_cross_entropy},
                       {"negativeloglikelihood", means_cross_entropy},
                       {"softmax", means_cross_entropy},
                       {"l2", means_mse},
                       {"meansquarederror", means_mse},
                       {"squarederror", means_mse},
                       {"binarycrossentropy", means_bce},
                       {"binarycrossentropywithlogits", means_bce},
                       {"bcewithlogits", means_bce},
                       {"logistic", means_bce}}}));
  const OnlyWith only_classes{.key = "train.loss", .values = {"cross_entropy"}};
  fields.push_back(
      field("train.label_smoothing", loss.label_smoothing,
            "share of the target that is spread evenly over all classes in the "
            "training loss; evaluations report the loss without it",
            {.at_least = 0, .below = 1, .synonyms = {"smoothing"}, .only_with = only_classes}));
  fields.push_back(field("train.class_weights", loss.class_weights,
                         "factor of the training loss for each class; the sum over a batch is "
                         "divided by the number of samples (PyTorch divides by the sum of the "
                         "samples' weights); empty: 1 for each",
                         {.at_least = 0,
                          .at_most = 1e6,
                          .synonyms = {"class_weight", "weight", "pos_weight"},
                          .only_with = only_classes}));
}

// NOLINTNEXTLINE(readability-function-size): a list
void add_train(OptionFields& fields, Options& o) {
  PipelineOptions& p = o.pipeline;
  fields.push_back(field("train.epochs", p.epochs, "passes over the training samples",
                         {.at_least = 1,
                          .at_most = 1e6,
                          .synonyms = {"num_epochs", "max_epochs", "num_train_epochs"},
                          .hints = {{"min_epochs", no_option_hint}}}));
  fields.push_back(
      field("train.steps", as_signed(p.max_steps),
            "steps after which the run ends; the learning rate schedule still spans "
            "train.epochs; 0: after train.epochs",
            {.at_least = 0,
             .at_most = most_steps,
             .synonyms = {"max_steps", "num_steps"},
             .hints = {{"fast_dev_run", "train.steps ends a run early: train.steps=1"},
                       {"max_time",
                        "a run that gets the signal INT or TERM ends with a checkpoint: timeout "
                        "-s INT 2h troupe train FILE"}},
             .setting = "max_steps"}));
  fields.push_back(field("train.batch_size", p.batch_size,
                         "samples of one step, over all replicas and micro-batches",
                         {.at_least = 1,
                          .at_most = largest_size,
                          .synonyms = {"batch", "bs", "train_batch_size"},
                          .hints = {{"per_device_train_batch_size", device_batch_hint},
                                    {"train_micro_batch_size_per_gpu", device_batch_hint}}}));
  fields.push_back(field("train.micro_batches", as_signed(p.micro_batches),
                         "micro-batches of a batch, over all replicas; batch norm averages over "
                         "one micro-batch",
                         {.at_least = 1,
                          .at_most = largest_count,
                          .synonyms = {"microbatches"},
                          .hints = {{"sync_batchnorm", sync_norm_hint},
                                    {"sync_bn", sync_norm_hint},
                                    {"accumulate_grad_batches", accumulation_hint},
                                    {"gradient_accumulation", accumulation_hint},
                                    {"gradient_accumulation_steps", accumulation_hint}}}));
  fields.push_back(
      lr_field(p.rate.lr, "train.lr", "learning rate; with one_cycle the highest rate"));
  fields.push_back(name_field("train.optimizer", o.optimizer, "rule that updates the weights",
                              {"opt"},
                              "write an optimizer of your own in C++ (docs/own-program.md)"));
  add_all(fields, fields_of(o.optimizer, "train.optimizer"));
  fields.push_back(list_field<GroupOptions>(
      "train.groups", o.groups,
      "parameter groups: hyper-parameters for the parameters whose names match shell "
      "patterns (*, ?, [...]): "
      "[{parameters: ['*.bias'], weight_decay: 0}]; a parameter matches at most one group; "
      "the verb inspect lists the names; the schedule scales the lr of a group by the same factor "
      "as train.lr",
      [&o](GroupOptions& group) { return group_fields(o, group); }));
  fields.back().hints = {{"norm_weight_decay", groups_hint},
                         {"bias_weight_decay", groups_hint},
                         {"no_decay", groups_hint},
                         {"param_groups", groups_hint},
                         {"amsgrad", "there is no AMSGrad: leave it out"}};
  fields.push_back(field("train.freeze", o.frozen,
                         "shell patterns of parameters that keep their values, such as "
                         "['conv1.*', 'layer1.*']; running statistics change as in other layers",
                         {.synonyms = {"frozen", "freeze_layers"}}));
  fields.push_back(
      field("train.clip_norm", o.clip_norm,
            "scales a step's gradient so that its norm over all parameters is at most this; 0: no "
            "clipping",
            {.at_least = 0,
             .at_most = 1e30,
             .synonyms = {"gradient_clip_val", "gradient_clipping", "max_grad_norm", "max_norm",
                          "clip_grad_norm", "clip_grad_norm_", "grad_clip", "clip_grad",
                          "gradient_clip"}}));
  fields.push_back(
      field("train.clip_value", o.clip_value,
            "clips each element of a step's gradient to [-clip_value, clip_value] before the "
            "update; 0: no clipping",
            {.at_least = 0,
             .at_most = 1e30,
             .synonyms = {"clip_grad_value", "clip_grad_value_", "grad_clip_value"},
             .hints = {{"gradient_clip_algorithm",
                        "train.clip_norm clips by the norm, train.clip_value by value"}}}));
  fields.push_back(field(
      "train.ema_decay", o.ema_decay,
      "decay of an exponential moving average of the weights, such as 0.999; evaluations, eval and "
      "export use the average, with the running statistics of the last step; 0: none",
      {.at_least = 0,
       .below = 1,
       .synonyms = {"ema", "model_ema", "model_ema_decay", "moving_average"},
       .hints = {{"swa", "there is no SWA; train.ema_decay averages the weights of all steps"}}}));
  add_loss(fields, p.loss);
  fields.push_back(choice_field(
      "train.schedule", p.rate.schedule, learning_rate_schedule_names,
      "learning rate schedule; it spans train.epochs even if train.steps ends the run earlier, so "
      "one_cycle, cosine and polynomial come near 0 only in the last epoch. one_cycle rises from "
      "train.lr / 25 to train.lr in 30 % of the steps before it falls",
      {.synonyms = {"lr_schedule", "scheduler", "lr_scheduler", "lr_scheduler_type"},
       .hints = {{"T_max", "the schedule cosine spans train.epochs, by steps: leave it out"},
                 {"eta_min", "the schedule cosine ends near 0: leave it out"},
                 {"lr_min", "the schedule cosine ends near 0: leave it out"},
                 {"max_lr", "train.lr is the highest rate of the schedule one_cycle"},
                 {"pct_start", one_cycle_hint},
                 {"div_factor", one_cycle_hint},
                 {"final_div_factor", one_cycle_hint},
                 {"cycle_momentum", "the schedule one_cycle leaves the momentum as it is"},
                 {"milestones",
                  "the schedule step drops the rate every train.step_epochs epochs; there are no "
                  "other milestones"}},
       .value_hints = {{"linear", linear_hint}, {"linearwithwarmup", linear_hint}},
       .setting = "LearningRateOptions::schedule"}));
  fields.push_back(
      field("train.warmup_steps", p.rate.warmup_steps,
            "steps before the schedule, in which the learning rate rises linearly "
            "from near 0 to the schedule's first rate: train.lr, or train.lr / 25 with "
            "one_cycle, which has a rise of its own",
            {.at_least = 0,
             .at_most = most_steps,
             .synonyms = {"warmup"},
             .hints = {{"warmup_epochs", warmup_hint},
                       {"lr_warmup_epochs", warmup_hint},
                       {"lr_warmup_method", "the warm-up is linear: leave it out"},
                       {"warmup_ratio", warmup_hint}}}));
  const OnlyWith only_step{.key = "train.schedule", .values = {"step"}};
  const OnlyWith with_factor{.key = "train.schedule", .values = {"step", "plateau"}};
  const OnlyWith only_plateau{.key = "train.schedule", .values = {"plateau"}};
  fields.push_back(field("train.step_epochs", p.rate.step_epochs,
                         "schedule step: epochs between two drops of the learning rate",
                         {.at_least = 1,
                          .at_most = many,
                          .synonyms = {"step_size", "lr_step_size"},
                          .only_with = only_step}));
  fields.push_back(field(
      "train.step_factor", p.rate.step_factor, "schedules step and plateau: factor of a drop",
      {.above = 0, .at_most = 1, .synonyms = {"gamma", "lr_gamma"}, .only_with = with_factor}));
  fields.push_back(field(
      "train.plateau_patience", p.rate.plateau_patience,
      "schedule plateau: the learning rate drops after more than this number of evaluations in a "
      "row without an improvement of train.monitor by more than train.min_delta (PyTorch: "
      "patience)",
      {.at_least = 0, .at_most = largest_count, .only_with = only_plateau}));
  fields.push_back(field("train.power", p.rate.power,
                         "schedule polynomial: exponent of the decay; the rate is proportional to "
                         "(remaining steps / all steps)^power; 1: linear",
                         {.above = 0,
                          .at_most = 1000,
                          .synonyms = {"poly_power"},
                          .only_with = {.key = "train.schedule", .values = {"polynomial"}}}));
  fields.push_back(field(
      "train.stop_on_nan", p.stop_on_nan,
      "end the run at a training loss that is not finite, at a gradient that is not finite "
      "although the loss scale is loss_scale.min_scale, or after 50 skipped steps in a row with a "
      "static scale; the step is not committed"));
  fields.push_back(field("train.target_accuracy", p.stopping.target_accuracy,
                         "test accuracy at which the run ends, such as 0.95; 0: none",
                         {.at_least = 0, .at_most = 1}));
  fields.push_back(field(
      "train.patience", as_signed(p.stopping.patience),
      "early stopping: the run ends after this number of evaluations in a row without an "
      "improvement of train.monitor; 0: never. With train.target_accuracy it means something else: "
      "the run ends after so many evaluations in a row that reach the target (0: one), and never "
      "for lack of an improvement",
      {.at_least = 0, .at_most = 1e6, .synonyms = {"early_stopping", "early_stopping_patience"}}));
  fields.push_back(choice_field("train.monitor", p.stopping.monitor, monitored_score_names,
                                "score by which train.patience, train.schedule plateau and "
                                "checkpoint.keep_best compare evaluations",
                                {.value_hints = {{"acc", "did you mean test_accuracy?"}},
                                 .setting = "EarlyStopping::monitor"}));
  fields.push_back(field("train.min_delta", p.stopping.min_delta,
                         "change of train.monitor that an improvement must exceed",
                         {.at_least = 0, .at_most = 1e6}));
  fields.push_back(field("train.evaluate", p.evaluates, "evaluate the test set after each epoch",
                         {.hints = {{"val_check_interval", evaluation_hint},
                                    {"check_val_every_n_epoch", evaluation_hint},
                                    {"eval_interval", evaluation_hint},
                                    {"eval_every", evaluation_hint},
                                    {"evaluation_strategy", evaluation_hint},
                                    {"eval_strategy", evaluation_hint}},
                          .setting = "evaluates"}));
}

void add_loss_scale(OptionFields& fields, LossScaleOptions& scale) {
  constexpr std::string_view mode = "loss_scale.mode";
  constexpr double smallest = 1e-38, largest = 1e38;  // 2^-126 and 2^126 lie just within
  const OnlyWith scaled{.key = mode, .values = {"auto", "dynamic", "static"}};
  const OnlyWith dynamic{.key = mode, .values = {"auto", "dynamic"}};
  fields.push_back(choice_field(
      std::string(mode), scale.mode, loss_scaling_names,
      "loss scaling, so that small gradients do not vanish in f16: dynamic adapts the scale, as "
      "PyTorch's GradScaler; static keeps init_scale; auto: dynamic with precision 16-mixed, else "
      "none. A step whose gradient is not finite is skipped",
      {.synonyms = {"loss_scale", "loss_scaling", "loss_scaler", "dynamic_loss_scale",
                    "grad_scaler", "scaler"},
       .setting = "LossScaleOptions::mode"}));
  fields.push_back(
      field("loss_scale.init_scale", scale.init_scale, "scale of the first step; a power of two",
            {.at_least = smallest,
             .at_most = largest,
             .synonyms = {"initial_scale", "initial_loss_scale"},
             .hints = {{"initial_scale_power",
                        "loss_scale.init_scale is the scale itself: 65536 for the power 16"}},
             .only_with = scaled}));
  fields.push_back(field("loss_scale.growth_interval", scale.growth_interval,
                         "steps in a row with a finite gradient after which the scale grows",
                         {.at_least = 1,
                          .at_most = most_steps,
                          .synonyms = {"loss_scale_window", "scale_window"},
                          .only_with = dynamic}));
  fields.push_back(
      field("loss_scale.growth_factor", scale.growth_factor, "factor of growth; a power of two",
            {.above = 1, .at_most = largest, .synonyms = {"scale_factor"}, .only_with = dynamic}));
  fields.push_back(field("loss_scale.backoff_factor", scale.backoff_factor,
                         "factor of the scale after a skipped step; a power of two",
                         {.at_least = smallest, .below = 1, .only_with = dynamic}));
  fields.push_back(field("loss_scale.min_scale", scale.min_scale,
                         "smallest scale, at which a gradient that is not finite ends the run, "
                         "unless train.stop_on_nan is false; a power of two",
                         {.at_least = smallest,
                          .at_most = largest,
                          .synonyms = {"min_loss_scale"},
                          .only_with = dynamic}));
  fields.push_back(
      field("loss_scale.hysteresis", scale.hysteresis,
            "the n-th skipped step since the scale last grew, and each one after it, lowers the "
            "scale; 1: every skipped step",
            {.at_least = 1,
             .at_most = most_steps,
             .hints = {{"consecutive_hysteresis",
                        "loss_scale.hysteresis counts skipped steps since the scale last grew, in "
                        "a row or not; leave it out"}},
             .only_with = dynamic}));
}

void add_parallel(OptionFields& fields, Options& o) {
  PipelineOptions& p = o.pipeline;
  fields.push_back(field("parallel.pipeline", o.stages, "stages of the pipeline",
                         {.at_least = 1,
                          .at_most = largest_count,
                          .synonyms = {"pp", "stages"},
                          .setting = "stages"}));
  fields.push_back(field("parallel.data", as_signed(p.replicas), "replicas of the whole pipeline",
                         {.at_least = 1,
                          .at_most = largest_count,
                          .synonyms = {"dp", "replicas"},
                          .hints = {{"num_nodes", nodes_hint},
                                    {"nnodes", nodes_hint},
                                    {"devices", processes_hint},
                                    {"gpus", one_gpu_hint},
                                    {"num_gpus", one_gpu_hint},
                                    {"strategy", processes_hint},
                                    {"world_size", processes_hint},
                                    {"local_rank", processes_hint},
                                    {"dist_url", processes_hint},
                                    {"nproc", processes_hint},
                                    {"nproc_per_node", processes_hint}},
                          .setting = "replicas"}));
  fields.push_back(
      choice_field("parallel.schedule", p.schedule, schedule_names,
                   "pipeline schedule: gpipe runs all forward passes first; 1f1b alternates "
                   "forward and backward; eager_1f1b runs more forward passes ahead, which takes "
                   "more memory and waits less for slow stages and messages; zb_h1 and zb_h2 are "
                   "1f1b and eager_1f1b with deferred weight gradients",
                   {.setting = "PipelineOptions::schedule"}));
  fields.push_back(field(
      "parallel.partition", as_signed(p.partition),
      "blocks of each stage; auto balances their cost, measured on this machine at the start of "
      "a new run; set a list for a repeatable division",
      {.at_least = 1, .at_most = largest_count, .empty_word = "auto", .old_path = "parallel.cut"}));
}

void add_threads(OptionFields& fields, Options& o) {
  fields.push_back(field("parallel.actor_threads", o.run.threads,
                         "threads that run actors, in each process; 0: one for each stage of each "
                         "replica in the process, as far as the cores suffice",
                         {.at_least = 0,
                          .at_most = largest_count,
                          .synonyms = {"threads"},
                          .setting = "RunOptions::threads"}));
  fields.push_back(field("parallel.intra_op_threads", o.intra_op_threads,
                         "threads of one kernel on the CPU; auto: the cores of the process, "
                         "divided by its actor threads, at most OMP_NUM_THREADS. Results do not "
                         "depend on it",
                         {.at_least = 1,
                          .at_most = largest_count,
                          .empty_word = "auto",
                          .synonyms = {"omp_threads"},
                          .setting = "Stream::threads"}));
}

void add_reduction(OptionFields& fields, Options& o) {
  fields.push_back(field("parallel.bucket_cap_mb", in_mebibytes(o.pipeline.bucket_cap_bytes),
                         "largest bucket of gradients that are reduced together, in MiB; a larger "
                         "block is a bucket of its own",
                         {.above = 0,
                          .at_most = 1e6,
                          .synonyms = {"bucket_size", "bucket_cap"},
                          .setting = "bucket_cap_bytes"}));
  fields.push_back(choice_field("parallel.aggregation", o.aggregation, aggregations,
                                "asynchronous applies a step's gradients parallel.staleness steps "
                                "later, and sums them while these steps compute"));
  fields.push_back(field("parallel.staleness", o.staleness,
                         "asynchronous: steps until a step's gradients are applied",
                         {.at_least = 1, .at_most = largest_staleness, .synonyms = {"delay"}}));
}

void add_transport(OptionFields& fields, Options& o) {
  fields.push_back(
      field("parallel.transport", o.transport.transport,
            fmt::format("transport of tensors between processes; {}: {}", automatic_transport,
                        meaning_of_transport(automatic_transport)),
            {.choices = transport_choices(), .synonyms = {"backend", "dist_backend"}}));
  fields.push_back(field("parallel.interface", o.transport.interface,
                         "network interface between hosts, such as eth0; empty: the one that "
                         "leads to the other hosts",
                         {.synonyms = {"ifname", "socket_ifname"}}));
  fields.push_back(field("parallel.timeout", in_seconds(o.transport.timeout),
                         "time for processes to connect and to answer; all other timeouts derive "
                         "from it",
                         {.at_least = 1, .at_most = 1e6}));
}

void add_writing(OptionFields& fields, Options& o) {
  fields.push_back(field(
      "checkpoint.every_epochs", as_signed(o.checkpoint_every_epochs),
      "epochs between two checkpoints; the interval is longer if the previous "
      "checkpoint is still being written; the run always writes a last checkpoint; 0: "
      "none after epochs",
      {.at_least = 0, .at_most = 1e6, .synonyms = {"every_n_epochs", "checkpoint_interval"}}));
  fields.push_back(
      field("checkpoint.every_steps", as_signed(o.checkpoint_every_steps),
            "steps between two checkpoints, besides those after epochs; the interval is "
            "longer if the previous one is still being written; 0: none",
            {.at_least = 0,
             .at_most = most_steps,
             .synonyms = {"interval", "every", "every_n_train_steps", "save_steps"}}));
  fields.push_back(field("checkpoint.every_minutes", o.checkpoint_every_minutes,
                         "write a checkpoint at the end of a step if the last one is this many "
                         "minutes old; 0: never",
                         {.at_least = 0, .at_most = 1e6, .synonyms = {"train_time_interval"}}));
  fields.push_back(field("checkpoint.keep", as_signed(o.checkpoints_kept),
                         "newest checkpoints to keep; 0: all",
                         {.at_least = 0,
                          .at_most = many,
                          .synonyms = {"save_total_limit", "max_to_keep"},
                          .hints = {{"save_top_k", top_k_hint},
                                    {"save_last",
                                     "a run always writes a last checkpoint, and "
                                     "checkpoint.keep keeps the newest"}}}));
  fields.push_back(field("checkpoint.keep_best", o.best_checkpoint_kept,
                         "also keep the checkpoint with the best evaluation by train.monitor; "
                         "training then waits until the previous checkpoint is written",
                         {.synonyms = {"save_best_only", "save_best"},
                          .hints = {{"load_best_model_at_end",
                                     "checkpoint.keep_best keeps the best checkpoint, which eval "
                                     "and export take with --best"},
                                    {"mode",
                                     "train.monitor implies it: a loss is to fall, an accuracy to "
                                     "rise"}}}));
  fields.push_back(
      field("log.every_steps", o.log_every_steps,
            "steps between two rows of train.csv; a row has the mean loss and accuracy "
            "of the steps since the row before, or since the run was resumed",
            {.at_least = 1,
             .at_most = most_steps,
             .synonyms = {"log_interval", "log_every_n_steps", "flush_logs_every_n_steps",
                          "print_freq"}}));
  fields.push_back(choice_field("log.level", o.log_level, log_levels,
                                "debug also shows, in the terminal and in train.log, the route and "
                                "slots of each edge, each step, evaluation and checkpoint, and at "
                                "the end the messages of each edge",
                                {.synonyms = {"verbose", "verbosity"}}));
}

std::vector<OptionField> fault_fields(FaultOptions& fault) {
  return {field("actor", fault.actor,
                "as \"stage/1\", or \"stage/1/0\" of replica 0; loader, loss, reducer/0, monitor, "
                "writer"),
          field("step", as_signed(fault.step), "of the run, from 0",
                {.at_least = 0, .at_most = most_steps}),
          field("micro_batch", as_signed(fault.micro_batch), "of the step, from 0",
                {.at_least = 0, .at_most = largest_count})};
}

void add_recovery(OptionFields& fields, Options& o) {
  fields.push_back(field("restarts.max", o.run.restarts.max,
                         "replacements of one actor within restarts.within before the run fails",
                         {.at_least = 0, .at_most = 1e6, .setting = "RestartBudget::max"}));
  fields.push_back(
      field("restarts.within", in_seconds(o.run.restarts.within),
            "period of restarts.max; failures without a committed step between them always count",
            {.at_least = 1, .at_most = 1e9, .setting = "RestartBudget::within"}));
  fields.push_back(list_field<FaultOptions>("faults", o.run.faults,
                                            "actors that are made to fail, once each, to test "
                                            "recovery; step counts from 0; an actor name may "
                                            "be a prefix, such as stage for stage/0",
                                            fault_fields));
}

}  // namespace

OptionFields option_fields(Options& options) {
  OptionFields fields;
  add_run(fields, options);
  add_model(fields, options);
  add_data(fields, options);
  add_train(fields, options);
  add_loss_scale(fields, options.pipeline.loss_scale);
  add_parallel(fields, options);
  add_threads(fields, options);
  add_reduction(fields, options);
  add_transport(fields, options);
  add_writing(fields, options);
  add_recovery(fields, options);
  return fields;
}

std::string option_text(const Options& options, std::string_view path) {
  Options copy = options;  // fields are bound to variables
  const OptionFields fields = option_fields(copy);
  const auto found = std::ranges::find(fields, path, &OptionField::path);
  return found == fields.end() ? "" : found->write();
}

std::string resolved_yaml(const Options& options) {
  Options copy = options;  // fields are bound to variables; nothing is written through them here
  return write_fields(option_fields(copy));
}

Optimizer optimizer_of(const Options& options) {
  std::vector<ParameterGroup> groups;
  if (!options.frozen.empty())
    groups.push_back(
        {.parameters = options.frozen, .optimizer = options.optimizer.chosen(), .lr = 0});
  for (const GroupOptions& group : options.groups) {
    GroupSettings settings{options.optimizer};
    for (const OptionField& setting : settings.fields())
      if (const auto value = group.values.find(std::string(plain_name(setting)));
          value != group.values.end())
        setting.read(*parse_yaml("value: " + value->second, "train.groups").find("value"));
    groups.push_back({.parameters = group.parameters, .optimizer = settings.optimizer.chosen()});
    if (group.values.contains("lr")) groups.back().lr = settings.lr;
  }
  return options.optimizer.chosen()
      .with_groups(std::move(groups))
      .with_clip_norm(options.clip_norm)
      .with_clip_value(options.clip_value)
      .with_average(options.ema_decay);
}

}  // namespace troupe

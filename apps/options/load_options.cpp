#include "apps/options/load_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "apps/error_wording.h"
#include "apps/options/options_table.h"
#include "apps/output/slow_notice.h"
#include "ops/models/file_model.h"
#include "runtime/error.h"
#include "runtime/options/tree.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// Older files have model.in_channels. The data set tells the channels; the key is only checked.
class FormerChannels {
 public:
  static constexpr const char* key = "model.in_channels";

  /// Takes the key out of the document.
  explicit FormerChannels(OptionTree& document) {
    OptionTree* model = document.find("model");
    const OptionTree* found = model == nullptr ? nullptr : model->find("in_channels");
    if (found == nullptr) return;
    value_ = *found;
    std::erase_if(model->entries, [](const auto& entry) { return entry.key == "in_channels"; });
  }
  void check(const Options& options, const Result<DatasetSummary>& data) const {
    if (value_.kind == OptionTree::Kind::null) return;
    std::int64_t channels = 0;
    field(key, channels, "", {.at_least = 1, .at_most = 1e6}).read(value_);
    if (!data) return;
    const Shape& shape = data.value().samples.shape;
    const std::int64_t actual = shape.rank() == 3 ? shape[0] : 1;
    if (channels != actual)
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: {} is {}, but samples of {} have {}", value_.where, key,
                              channels, options.dataset.name, counted(actual, "channel")),
                  fmt::format("leave {} out", key));
  }

 private:
  OptionTree value_;
};

/// Of a position: OptionTree::where, or one of OptionOrigins.
bool is_override(std::string_view where) { return where.starts_with("override"); }

/// Sets model.name to `file` where model.file is given without a name. Of another name and a file,
/// an override wins over the document; refuses both from one place. Returns a sentence if that
/// leaves out the file.
std::vector<std::string> choose_model_of_file(OptionTree& document) {
  OptionTree* model = document.find("model");
  const OptionTree* file = model == nullptr ? nullptr : model->find("file");
  if (file == nullptr || file->scalar.empty()) return {};
  OptionTree* name = model->find("name");
  OptionTree chosen = *file;
  chosen.scalar = FileModel::name;
  if (name == nullptr)
    model->entries.push_back({"name", file->where, std::move(chosen)});
  else if (name->scalar == FileModel::name)
    return {};
  else if (is_override(file->where) && !is_override(name->where))
    *name = std::move(chosen);
  else if (is_override(name->where) && !is_override(file->where)) {
    std::string sentence = fmt::format("{}: the model is {}, so model.file, {}, has no effect",
                                       name->where, name->scalar, file->scalar);
    std::erase_if(model->entries, [](const auto& entry) { return entry.key == "file"; });
    return {std::move(sentence)};
  } else
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: model.file is {}, but model.name is {}", file->where, file->scalar,
                            name->scalar),
                "leave out one of them: a model of a file needs no name");
  return {};
}

/// "; the model in 'net.pt2' has 10 outputs", for model.classes with such a model.
std::string outputs_of_file(const Options& options) {
  const ModelSource& model = options.model.chosen();
  const auto outputs = model.outputs();
  if (!outputs) return {};
  return fmt::format("; the model in '{}' has {}", model.file().string(),
                     counted(*outputs, "output"));
}

/// A sentence for each option that was given a different value from its default and has no effect.
std::vector<std::string> without_effect(Options& options, const OptionOrigins& origins) {
  Options defaults(options.own);
  defaults.model.name = options.model.name;
  defaults.dataset.name = options.dataset.name;
  defaults.optimizer.name = options.optimizer.name;
  const OptionFields fields = option_fields(options), usual = option_fields(defaults);
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& [key, values] = fields[i].only_with;
    const std::string where = origins.of(fields[i].path);
    if (key.empty() || where == "default" || fields[i].write() == usual[i].write()) continue;
    const std::string value = std::ranges::find(fields, key, &OptionField::path)->write();
    if (std::ranges::find(values, value) != values.end()) continue;
    if (key == "model.name" && value == FileModel::name)
      sentences.push_back(fmt::format(
          "{}: {} has no effect with model.file{}", where, fields[i].path,
          fields[i].path == "model.classes" ? outputs_of_file(options) : std::string()));
    else
      sentences.push_back(fmt::format("{}: {} has no effect with {} {}, only with {}", where,
                                      fields[i].path, key, value, fmt::join(values, ", ")));
  }
  return sentences;
}

/// A sentence if the learning rate is the default, which does not suit every optimizer.
std::vector<std::string> unusual_rate(const Options& options, const OptionOrigins& origins) {
  const std::optional<double> usual = options.optimizer.chosen().usual_lr();
  if (!usual || origins.of("train.lr") != "default") return {};
  return {fmt::format("train.lr is {}, the default; {} usually takes about {}",
                      options.pipeline.rate.lr, options.optimizer.name, *usual)};
}

/// A sentence if a warm-up precedes the rise of one_cycle.
std::vector<std::string> second_warmup(const Options& options, const OptionOrigins& origins) {
  const LearningRateOptions& rate = options.pipeline.rate;
  if (rate.schedule != LearningRateSchedule::one_cycle || rate.warmup_steps == 0) return {};
  return {
      fmt::format("{}: train.warmup_steps {} delays the schedule one_cycle, which itself rises "
                  "for 30 % of its steps",
                  origins.of("train.warmup_steps"), rate.warmup_steps)};
}

/// A sentence if convolutions would round f32 to TF32, but have none.
std::vector<std::string> unused_rounding(const Options& options, const OptionOrigins& origins) {
  const Stream& stream = options.pipeline.stream;
  if (!stream.conv_tf32 || stream.products == DType::f32) return {};
  return {fmt::format("{}: conv_precision has no effect with precision {}, only with 32-true",
                      origins.of("conv_precision"), option_text(options, "precision"))};
}

/// Sentences for what chooses among evaluations where none are compared.
std::vector<std::string> unused_comparison(const Options& options, const OptionOrigins& origins) {
  const EarlyStopping &stopping = options.pipeline.stopping, defaults;
  const bool compares = options.pipeline.rate.schedule == LearningRateSchedule::plateau ||
                        (stopping.patience > 0 && stopping.target_accuracy == 0);
  constexpr const char* remedy =
      "train.schedule plateau, or train.patience without "
      "train.target_accuracy";
  std::vector<std::string> sentences;
  if (!compares && stopping.min_delta != defaults.min_delta)
    sentences.push_back(fmt::format("{}: train.min_delta has no effect, only with {}",
                                    origins.of("train.min_delta"), remedy));
  if (!compares && !options.best_checkpoint_kept && stopping.monitor != defaults.monitor)
    sentences.push_back(
        fmt::format("{}: train.monitor has no effect, only with checkpoint.keep_best, {}",
                    origins.of("train.monitor"), remedy));
  return sentences;
}

/// A sentence if the widths in a file were written for another model than that of an override.
std::vector<std::string> widths_of_another_model(const Options& options,
                                                 const OptionOrigins& origins) {
  const std::string of_widths = origins.of("model.widths");
  if (!is_override(origins.of("model.name")) || of_widths == "default" || is_override(of_widths))
    return {};
  Options copy = options;  // fields are bound to variables
  const OptionFields fields = option_fields(copy);
  const auto widths = std::ranges::find(fields, "model.widths", &OptionField::path);
  const auto& takers = widths->only_with.values;
  if (std::ranges::find(takers, options.model.name) == takers.end() || widths->write() == "[]")
    return {};
  return {
      fmt::format("{}: model.widths is {}, which the file sets for another model; "
                  "-r model.widths=[] selects the default of {}",
                  of_widths, widths->write(), options.model.name)};
}

/// A sentence for the scale of losses that are not scaled, because products are not f16.
std::vector<std::string> unused_loss_scale(const Options& options, const OptionOrigins& origins) {
  LossScaleOptions usual;
  usual.mode = options.pipeline.loss_scale.mode;
  if (usual.mode != LossScaling::automatic || loss_scale_options(options.pipeline) ||
      options.pipeline.loss_scale == usual)
    return {};
  Options copy = options;  // fields are bound to variables
  for (const OptionField& field : option_fields(copy))
    if (field.path.starts_with("loss_scale.") && origins.of(field.path) != "default")
      return {
          fmt::format("{}: {} has no effect with precision {}, only with loss_scale.mode "
                      "dynamic or static",
                      origins.of(field.path), field.path, option_text(options, "precision"))};
  return {};
}

/// An error if the data set's options are wrong, or its files cannot be read on this host.
Result<DatasetSummary> summary_of_samples(const Options& options) {
  const SlowNotice notice(fmt::format("opening the data set {}", options.dataset.name));
  try {
    return options.dataset.chosen().describe(dataset_options(options));
  } catch (const Error& error) {
    return error;
  }
}

/// The outputs that the loss needs for the targets; nothing where classes are not counted.
std::optional<std::int64_t> outputs_for(const LossFunction& loss, const DatasetSummary& data) {
  const SampleSpec& samples = data.samples;
  const bool classes = samples.target_dtype == DType::i64 && samples.target_shape.rank() == 0;
  if (!classes) return samples.target_shape.element_count();
  if (samples.classes < 1 || samples.classes > most_plausible_classes(data)) return std::nullopt;
  return loss.kind == LossKind::bce && samples.classes <= 2 ? 1 : samples.classes;
}

/// Gives model.classes its value where it is auto and the samples are known.
void choose_classes(Options& options) {
  if (options.classes_chosen || !options.samples || !options.model.chosen().outputs()) return;
  const auto outputs = outputs_for(options.pipeline.loss, options.samples.value());
  if (!outputs) return;
  const OptionFields fields = option_fields(options);
  const auto field = std::ranges::find(fields, "model.classes", &OptionField::path);
  field->read(parse_yaml(fmt::format("{}", *outputs), "the classes of the data set", true));
}

/// A sentence for a mean or deviation of pixels where the samples are no pixels.
std::vector<std::string> unused_mean(const Options& options) {
  if (!options.samples || options.samples.value().samples.dtype == DType::u8) return {};
  return {
      fmt::format("data.mean and data.std have no effect: only u8 images are normalised, not "
                  "samples of {}",
                  name_of(options.samples.value().samples.dtype))};
}

/// Whose document it is: a user's, or one that a program of Troupe has written in a checkpoint or
/// an output folder. The data set of a past one is not described, nor are options checked with it.
enum class Written { by_user, by_program, in_the_past };

OptionOrigins read_options(const OptionTree& document, Options& options, Written written) {
  try {
    return read_fields(document, option_fields(options));
  } catch (const OptionError& error) {
    if (written == Written::by_user || is_override(error.where)) throw;
    throw Error(error.code(), error.message(), "use the program that wrote this file");
  }
}

Options resolve(OptionTree document, const std::vector<std::string>& overrides,
                const Definitions& own, OptionOrigins* where = nullptr,
                Written written = Written::by_user) {
  const bool has_data = written != Written::in_the_past;
  for (const std::string& assignment : overrides)
    apply_override(document, assignment, fmt::format("override -r {}", printable(assignment, 200)));
  const FormerChannels former_channels(document);
  std::vector<std::string> left_out = choose_model_of_file(document);
  Options options(own);
  OptionOrigins origins = read_options(document, options, written);
  if (!options.weights.empty()) options.weights_position = origins.of("model.weights") + ": ";
  PipelineData& samples = options.pipeline.data;
  const DatasetSource& source = options.dataset.chosen();
  const bool has_mean = !samples.mean.empty() || !samples.std.empty();
  if (samples.mean.empty()) samples.mean = source.usual_mean();
  if (samples.std.empty()) samples.std = source.usual_std();
  if (has_data) options.samples = summary_of_samples(options);
  const Result<DatasetSummary>& data = options.samples;
  choose_classes(options);
  validate(options, origins);
  former_channels.check(options, data);
  options.warnings = std::move(left_out);
  std::ranges::move(without_effect(options, origins), std::back_inserter(options.warnings));
  std::ranges::move(unused_comparison(options, origins), std::back_inserter(options.warnings));
  std::ranges::move(unused_rounding(options, origins), std::back_inserter(options.warnings));
  std::ranges::move(widths_of_another_model(options, origins),
                    std::back_inserter(options.warnings));
  std::ranges::move(unused_loss_scale(options, origins), std::back_inserter(options.warnings));
  std::ranges::move(unusual_rate(options, origins), std::back_inserter(options.warnings));
  std::ranges::move(second_warmup(options, origins), std::back_inserter(options.warnings));
  if (has_mean) std::ranges::move(unused_mean(options), std::back_inserter(options.warnings));
  if (has_data && !data)
    options.warnings.push_back(
        fmt::format("{} cannot be read on this host, so the options that depend on its samples are "
                    "not checked: {}",
                    options.dataset.name, in_words_of_the_command(data.error(), own).message()));
  if (where != nullptr) *where = std::move(origins);
  return options;
}

/// A model in place of an options file.
void check_is_no_model(const std::filesystem::path& file) {
  const auto extension = file.extension();
  if (extension == ".pt2" || extension == ".onnx")
    throw Error(
        ErrorCode::usage, fmt::format("'{}' is a model, not an options file", file.string()),
        fmt::format("give an options file with the data, and -r model.file={}", file.string()));
}

/// What to do if an options file cannot be opened.
std::string remedy_for(const std::filesystem::path& file) {
  std::vector<std::string> names;
  std::error_code failed;
  if (std::filesystem::exists(file / "options_restart.yaml", failed))
    return fmt::format(
        "to resume this run: train FILE --restart {0}; its options: "
        "{0}/options_restart.yaml",
        file.string());
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed))
    if (at->path().extension() == ".yaml" || at->path().extension() == ".yml")
      names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return did_you_mean(file.filename().string(), candidates,
                      "check the path; recipes/demo.yaml is an example");
}

}  // namespace

std::int64_t most_plausible_classes(const DatasetSummary& data) {
  return std::max<std::int64_t>(data.train, 1000);
}

Options load_options(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const Definitions& own, OptionOrigins* origins) {
  check_is_no_model(file);
  const std::string remedy =
      std::filesystem::is_regular_file(file) ? "check the path" : remedy_for(file);
  OptionTree document = read_yaml(file, remedy);
  const bool is_empty = document.kind == OptionTree::Kind::null;
  Options options = resolve(std::move(document), overrides, own, origins);
  if (is_empty)
    options.warnings.push_back(
        fmt::format("{} sets no option, so the defaults apply", file.string()));
  return options;
}

Options parse_options(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides, const Definitions& own) {
  return resolve(parse_yaml(text, source), overrides, own);
}

Options parse_recorded_options(std::string_view text, const std::string& source,
                               const std::vector<std::string>& overrides, const Definitions& own) {
  return resolve(parse_yaml(text, source), overrides, own, nullptr, Written::by_program);
}

Options parse_past_options(std::string_view text, const std::string& source, const Options& now) {
  OptionTree document = parse_yaml(text, source);
  std::vector<std::string> overrides{"model.weights="};
  const OptionTree* model = document.find("model");
  const OptionTree* recorded = model == nullptr ? nullptr : model->find("file");
  const bool is_of_file = recorded != nullptr && !recorded->scalar.empty();
  if (const std::string file = model_file(now); is_of_file && !file.empty())
    overrides.push_back(fmt::format("model.file={}", file));
  return resolve(std::move(document), overrides, now.own, nullptr, Written::in_the_past);
}

}  // namespace troupe

// Which losses, targets and models fit each other, checked before a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/loss.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// The outputs of a model, in messages.
struct ModelOutputs {
  std::optional<std::int64_t> count;
  const std::filesystem::path& file;

  /// "the model has 10 outputs", "the model in 'net.pt2' has 10 outputs".
  std::string text() const {
    return fmt::format("the model{} has {}",
                       file.empty() ? "" : fmt::format(" in '{}'", file.string()),
                       counted(*count, "output"));
  }
  std::string remedy(std::int64_t wanted) const {
    return file.empty() ? fmt::format("set `Model::classes` to {}", wanted)
                        : fmt::format("export the model with {}", counted(wanted, "output"));
  }
};

void require_outputs(const ModelOutputs& outputs, std::int64_t wanted, const std::string& targets) {
  if (outputs.count && *outputs.count != wanted)
    throw Error(ErrorCode::bad_options, fmt::format("{}, but {}", outputs.text(), targets),
                outputs.remedy(wanted));
}

/// "numbers (float32)", "numbers of the shape [3] (float32)".
std::string targets_text(const SampleSpec& samples) {
  const std::string_view type = samples.target_dtype == DType::f32 ? "float32"
                                : samples.target_dtype == DType::f64
                                    ? "float64"
                                    : name_of(samples.target_dtype);
  return samples.target_shape.rank() == 0
             ? fmt::format("numbers ({})", type)
             : fmt::format("numbers of the shape {} ({})", to_string(samples.target_shape), type);
}

void check_classes_fit(const LossFunction& loss, const SampleSpec& samples,
                       const ModelOutputs& outputs) {
  if (samples.target_dtype != DType::i64 || samples.target_shape.rank() != 0)
    throw Error(ErrorCode::bad_options,
                fmt::format("`loss` is cross_entropy, which takes one class for each sample, but "
                            "the targets are {}",
                            targets_text(samples)),
                "for classes, save integers (y.astype('int64'); one-hot: y.argmax(1)), or of a "
                "table set `targets` to classes; for regression, set `loss` to mse; for several "
                "labels a sample, to bce");
  if (outputs.count && *outputs.count < samples.classes)
    throw Error(ErrorCode::bad_options,
                fmt::format("{}, but the data set has {} (the largest is {})", outputs.text(),
                            counted(samples.classes, "class"), samples.classes - 1),
                fmt::format("{}, or number classes from 0", outputs.remedy(samples.classes)));
  const std::int64_t least = outputs.count.value_or(samples.classes);
  const std::int64_t given = std::ssize(loss.class_weights);
  if (given > 0 && (outputs.count ? given != least : given < least))
    throw Error(ErrorCode::bad_options,
                fmt::format("`class_weights` has {} for {}", counted(given, "number"),
                            counted(least, "output")),
                "give one number for each class");
}

}  // namespace

std::string_view name_of(LossKind kind) {
  using Name = std::pair<std::string_view, LossKind>;
  return std::ranges::find(loss_names, kind, &Name::second)->first;
}

void check(const LossFunction& loss) {
  if (!(loss.label_smoothing >= 0 && loss.label_smoothing < 1))
    throw Error(ErrorCode::bad_options,
                fmt::format("`label_smoothing` is {}", loss.label_smoothing),
                "give a number from 0, less than 1");
  for (const double weight : loss.class_weights)
    if (!(weight >= 0 && std::isfinite(weight)))
      throw Error(ErrorCode::bad_options, fmt::format("`class_weights` contains {}", weight),
                  "give numbers that are at least 0");
  const auto is_zero = [](double weight) { return weight == 0; };
  if (!loss.class_weights.empty() && std::ranges::all_of(loss.class_weights, is_zero))
    throw Error(ErrorCode::bad_options, "`class_weights` contains only zeros",
                "give at least one class a weight above 0");
}

void check_fits(const LossFunction& loss, const SampleSpec& samples,
                std::optional<std::int64_t> count, const std::filesystem::path& model_file) {
  const ModelOutputs outputs{count, model_file};
  if (loss.kind == LossKind::cross_entropy) return check_classes_fit(loss, samples, outputs);
  const bool classes = samples.target_dtype == DType::i64;
  if (loss.kind == LossKind::bce && classes && samples.target_shape.rank() == 0) {
    if (samples.classes > 2)
      throw Error(ErrorCode::bad_options,
                  fmt::format("`loss` is bce, which takes two classes or numbers, but the data set "
                              "has {} classes",
                              samples.classes),
                  "set `loss` to cross_entropy; for several labels a sample, give targets of f32 "
                  "[samples, labels]");
    return require_outputs(outputs, 1, "bce takes two classes with one");
  }
  if (!is_number(samples.target_dtype))
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`loss` is {}, which takes numbers, but the targets are {} {}",
                    name_of(loss.kind), classes ? "classes," : "", name_of(samples.target_dtype)),
        classes ? "set `loss` to cross_entropy; for regression, give targets of f32 or f64 "
                  "(y.astype('float32'))"
                : "give targets of f32 or f64");
  const std::int64_t wanted = samples.target_shape.element_count();
  if (samples.target_shape.rank() > 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("`loss` is {}, but a target has the shape {}", name_of(loss.kind),
                            to_string(samples.target_shape)),
                "give targets of one number, or of one axis");
  require_outputs(outputs, wanted, fmt::format("a target is {}", counted(wanted, "number")));
}

}  // namespace troupe

#include "ops/loss.h"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string_view>

#include "ops/on_device.h"
#include "ops/reference/loss.h"
#include "ops/widened.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe {
namespace {

/// Classes 0 and 1 as numbers.
Tensor as_numbers(const Tensor& classes) {
  Tensor numbers = Tensor::empty(classes.shape(), DType::f64, Device::cpu());
  for (std::int64_t i = 0; i < classes.element_count(); ++i)
    numbers.data<double>()[i] = static_cast<double>(classes.data<std::int64_t>()[i]);
  return numbers;
}

/// Throws for a target that is not finite or, for bce, outside [0, 1].
template <class T>
void check_values(std::string_view loss, std::span<const T> targets, std::size_t per_sample,
                  bool probabilities) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const T target = targets[i];
    if (std::isfinite(target) && (!probabilities || (target >= 0 && target <= 1))) continue;
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: target {} of sample {} of the micro-batch is {}", loss, target,
                            i / per_sample, probabilities ? "outside [0, 1]" : "not finite"),
                probabilities ? "scale the targets to [0, 1], or set `loss` to mse"
                              : "remove the sample, or give it a number");
  }
}

/// The targets of mse and bce in the shape and type of the outputs, in the CPU's memory.
Tensor targets_for(const LossFunction& loss, const Tensor& outputs, const Tensor& targets) {
  const bool bce = loss.kind == LossKind::bce;
  const std::string_view name = bce ? "bce" : "mse";
  const bool one_output = outputs.rank() == 2 && outputs.dim(1) == 1;
  if (outputs.rank() != 2 || outputs.dim(1) == 0 ||
      !(targets.shape() == outputs.shape() ||
        (one_output && targets.shape() == Shape{outputs.dim(0)})))
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: outputs are {}, targets {}; they must be of one shape, "
                            "(N, outputs)",
                            name, to_string(outputs.shape()), to_string(targets.shape())),
                "check the model's last layer");
  const bool classes = bce && one_output && targets.dtype() == DType::i64;
  if (!classes && targets.dtype() != DType::f32 && targets.dtype() != DType::f64)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: targets are {}, not f32 or f64", name, name_of(targets.dtype())));
  const Tensor numbers =
      cast(classes ? as_numbers(targets) : targets, outputs.dtype()).reshape(outputs.shape());
  const auto per_sample = static_cast<std::size_t>(outputs.dim(1));
  if (numbers.dtype() == DType::f64)
    check_values<double>(name, numbers.elements<double>(), per_sample, bce);
  else
    check_values<float>(name, numbers.elements<float>(), per_sample, bce);
  return numbers;
}

/// Undefined if there are none.
Tensor class_weights(const Stream& stream, const LossFunction& loss) {
  if (loss.class_weights.empty()) return {};
  const Shape shape{static_cast<std::int64_t>(loss.class_weights.size())};
  return on_device(stream, Tensor::from<double>(shape, loss.class_weights));
}

}  // namespace

LossOutput loss_of(const Stream& stream, const LossFunction& loss, const Tensor& of_model,
                   const Tensor& targets, double scale, bool training) {
  const Tensor outputs = widened(stream, of_model);
  if (loss.kind == LossKind::cross_entropy) {
    // A kernel of another device may not have run when the call returns, and so cannot throw.
    if (stream.device != Device::cpu() && targets.dtype() == DType::i64 && outputs.rank() == 2)
      reference::check_targets(targets, outputs.dim(1));
    return softmax_cross_entropy(stream, outputs, on_device(stream, targets), scale, training,
                                 training ? loss.label_smoothing : 0.0,
                                 training ? class_weights(stream, loss) : Tensor{});
  }
  const Tensor wanted = on_device(stream, targets_for(loss, outputs, targets));
  const KernelTable& table = kernels(outputs.device(), outputs.dtype());
  const auto kernel = loss.kind == LossKind::mse ? table.squared_error : table.binary_cross_entropy;
  return kernel(stream, outputs, wanted, scale, training);
}

LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing,
                                 const Tensor& class_weights) {
  if (logits.rank() != 2 || logits.dim(1) == 0 || targets.shape() != Shape{logits.dim(0)})
    throw Error(ErrorCode::bad_shape,
                fmt::format("softmax_cross_entropy: logits are {}, targets {}; they must be "
                            "(N, classes) and (N)",
                            to_string(logits.shape()), to_string(targets.shape())),
                "check the model's last layer");
  if (targets.dtype() != DType::i64)
    throw Error(ErrorCode::bad_shape, fmt::format("softmax_cross_entropy: targets are {}, not i64",
                                                  name_of(targets.dtype())));
  if (class_weights.defined() && class_weights.shape() != Shape{logits.dim(1)})
    throw Error(ErrorCode::bad_shape,
                fmt::format("softmax_cross_entropy: {} class weights for {} classes",
                            class_weights.element_count(), logits.dim(1)),
                "give `class_weights` one number for each output of the model");
  return kernels(logits.device(), logits.dtype())
      .softmax_cross_entropy(stream, logits, targets, scale, with_gradient, label_smoothing,
                             class_weights);
}

LossTotals read_totals(const Stream& stream, const LossOutput& output) {
  const Tensor totals = on_cpu(stream, output.totals);
  return {.loss_sum = totals.data<double>()[0],
          .correct = static_cast<std::int64_t>(totals.data<double>()[1])};
}

}  // namespace troupe

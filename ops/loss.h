#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/kernels.h"
#include "ops/models/model.h"

namespace troupe {

enum class LossKind : std::uint8_t {
  cross_entropy,  ///< softmax cross-entropy of classes: PyTorch's CrossEntropyLoss
  mse,            ///< mean squared error: MSELoss
  bce,            ///< binary cross-entropy of logits: BCEWithLogitsLoss
};

/// All of them, with the names that options give them.
inline constexpr std::array<std::pair<std::string_view, LossKind>, 3> loss_names{
    {{"cross_entropy", LossKind::cross_entropy}, {"mse", LossKind::mse}, {"bce", LossKind::bce}}};

std::string_view name_of(LossKind kind);

/// The loss that a run trains with. It is a mean over samples and, except for cross_entropy, over
/// the outputs of a sample.
struct LossFunction {
  LossKind kind = LossKind::cross_entropy;
  /// Of cross_entropy, in training alone: as PyTorch's; in [0, 1).
  double label_smoothing = 0;
  /// Of cross_entropy, in training alone: one number for each output; empty: 1 for each. The loss
  /// of a sample is -sum_c w_c t_c log p_c, so without label smoothing it is multiplied by the
  /// weight of its class. The sum is divided by the number of samples; PyTorch's
  /// CrossEntropyLoss(weight=w) divides it by the sum of the weights of the batch's classes.
  std::vector<double> class_weights = {};

  /// Whether evaluations count correct samples.
  bool has_accuracy() const { return kind != LossKind::mse; }
};

/// Throws Error{bad_options} for a label smoothing outside [0, 1), and for class weights that are
/// negative, not finite or all zero.
void check(const LossFunction& loss);
/// Throws Error{bad_options} where the loss does not take the targets of these samples, or the
/// model has another number of outputs than they need. `outputs` of a sample; empty: unknown.
/// `model_file` fixes their number; empty: `Model::classes` sets it.
void check_fits(const LossFunction& loss, const SampleSpec& samples,
                std::optional<std::int64_t> outputs, const std::filesystem::path& model_file = {});

/// Loss of a model's outputs [N, outputs], summed over the samples, with
/// d(loss sum * scale) / d(outputs) if requested. In training `scale` is 1 / samples of the global
/// batch, so that samples of a short micro-batch weigh as much as others. `targets` lie in the
/// CPU's memory: classes i64 [N], or for mse and bce numbers f32 or f64 [N, outputs] or, for one
/// output, [N]; bce takes classes 0 and 1 for one output too. In training label smoothing and class
/// weights count. Throws Error{bad_shape} for shapes and types that do not fit, and for targets
/// that are no class, not finite or, for bce, outside [0, 1].
LossOutput loss_of(const Stream& stream, const LossFunction& loss, const Tensor& outputs,
                   const Tensor& targets, double scale, bool training);

/// The loss cross_entropy of logits [N, classes] and targets i64 [N], both on the stream's device,
/// as are `class_weights` f64 [classes] (undefined: none). Throws as loss_of.
LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing = 0.0,
                                 const Tensor& class_weights = {});

/// LossOutput::totals, read by the caller.
struct LossTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;  ///< 0 for mse
};
/// Waits until the totals are in the CPU's memory.
LossTotals read_totals(const Stream& stream, const LossOutput& output);

}  // namespace troupe

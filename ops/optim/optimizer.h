#pragma once
// Update rules of weights. An Optimizer holds no data between steps; its state tensors are in
// StateVersion, so states, checkpoints and memory bounds work for any optimizer.

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/gradient_scaling.h"
#include "ops/optim/learning_rate.h"
#include "runtime/options/definition.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// The values that all slices of one optimizer step share.
struct OptimizerStep {
  std::int64_t updates = 0;  ///< updates before this one; steps without a gradient do not count
  double lr = 0.0;           ///< learning rate of this step
  GradientScaling scaling;   ///< update_all must apply it; gradients given to update are scaled
};

/// Consecutive parameters. All tensors are flat and of equal length.
struct OptimizerSlice {
  Tensor weights;
  Tensor gradient;
  std::span<const Tensor> state;  ///< by state_names; undefined before the first update
  Tensor new_weights;             ///< written
  std::span<Tensor> new_state;    ///< by state_names; written
};

/// One of the updates that are given at once; none reads what another writes.
template <class Rule>
struct UpdateBy {
  const Rule& rule;
  OptimizerStep step;
  OptimizerSlice slice;
};

/// A struct that describes an optimizer: its members are the hyper-parameters of a parameter group.
/// It has no state of its own, so several threads may use it.
/// - `state_names` names the state tensors that it keeps, each with one element for each element of
///   the weights. In checkpoints they are called "optimizer.<name>.<parameter>".
/// - `update` writes the new weights and state of a slice. Element by element: any division of the
///   parameters into slices gives the same bits.
///
/// It may also have `static void update_all(const Stream&, std::span<const UpdateBy<O>>)`, which is
/// then called in place of `update`, for all slices of a stage, with fewer kernels. It must apply
/// OptimizerStep::scaling, on which clipping and loss scales depend; `update` gets copies of scaled
/// gradients. It may also have `bool keeps_zeroes() const`: whether weight and state stay zero
/// where they and the gradient are. If not, the padding between parameters is cleared after each
/// update. It may also have `OptionFields options()`, which declares the members with key, range
/// and text, and `void check() const`, which throws Error{bad_options} where they contradict each
/// other. A `static constexpr double usual_lr` is the learning rate that most runs with it have.
/// `ops/optim/sgd.h` is an example.
template <class O>
concept OptimizerDefinition = Named<O> &&
    requires(const O& definition, const Stream& stream, const OptimizerStep& step,
             const OptimizerSlice& slice) {
  { definition.state_names() } -> std::same_as<std::vector<std::string>>;
  { definition.update(stream, step, slice) } -> std::same_as<void>;
};

/// Whether it has `update_all`, for its own type.
template <class O>
concept UpdatesAll = requires(const Stream& stream, std::span<const UpdateBy<O>> updates) {
  O::update_all(stream, updates);
};

struct ParameterGroup;

/// The state tensor of Optimizer::with_average.
inline constexpr std::string_view average_name = "average";

/// An optimizer of any such type: its hyper-parameters, and groups of parameters that have other
/// ones. A value: copies are independent.
class Optimizer : public Definition {
 public:
  static constexpr std::string_view setting = "Optimizer::name";

  template <OptimizerDefinition O>
  Optimizer(O definition)  // implicit, so that options take the struct itself
      : Definition(std::move(definition)),
        state_names_([](const Optimizer& self) { return self.as<O>().state_names(); }),
        update_all_([](const Stream& stream, std::span<const UpdateBy<Optimizer>> updates) {
          if constexpr (UpdatesAll<O>) {
            std::vector<UpdateBy<O>> own;
            for (const auto& [rule, step, slice] : updates)
              own.push_back({rule.template as<O>(), step, slice});
            O::update_all(stream, own);
          } else {
            for (const auto& [rule, step, slice] : updates) {
              const OptimizerStep own{.updates = step.updates, .lr = step.lr};
              rule.template as<O>().update(stream, own, with_scaled_gradient(stream, step, slice));
            }
          }
        }),
        scales_gradients_(UpdatesAll<O>),
        keeps_zeroes_([](const Optimizer& self) {
          if constexpr (requires(const O& own) { own.keeps_zeroes(); })
            return self.as<O>().keeps_zeroes();
          return false;
        }),
        check_([](const Optimizer& self) {
          if constexpr (requires(const O& own) { own.check(); }) self.as<O>().check();
        }) {
    if constexpr (requires { O::usual_lr; }) usual_lr_ = O::usual_lr;
  }

  /// The same optimizer with these groups (PyTorch: `param_groups` after the first).
  Optimizer with_groups(std::vector<ParameterGroup> groups) const;
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  /// The group of a parameter; null for the parameters of no group.
  const ParameterGroup* group_of(std::string_view parameter) const;
  /// The parameter keeps its value, and its state tensors are zero: its group is frozen.
  bool freezes(std::string_view parameter) const;
  /// The same optimizer, which first clips each element of the step's gradient to [-limit, limit]
  /// (PyTorch: `clip_grad_value_`). 0: no limit. Applies to all groups; the clip value of a group's
  /// own optimizer is ignored.
  Optimizer with_clip_value(double limit) const;
  double clip_value() const { return clip_value_; }
  /// The same optimizer, which first scales the step's gradient so that its 2-norm over all
  /// parameters of the model that are not frozen is at most `limit` (PyTorch: `clip_grad_norm_`).
  /// 0: no limit. The norm is an argument of `at`.
  Optimizer with_clip_norm(double limit) const;
  double clip_norm() const { return clip_norm_; }
  /// The same optimizer, which also keeps an exponential moving average of the weights:
  /// average' = decay * average + (1 - decay) * w', and w' in the first update (PyTorch:
  /// `AveragedModel` with `get_ema_multi_avg_fn`). Networks evaluate with the average. 0: none.
  Optimizer with_average(double decay) const;
  double average_decay() const { return average_decay_; }
  /// The same optimizer for one step: each group has its learning rate of the step. The gradients
  /// that it takes are still multiplied by `loss_scale`; limits hold for the gradients without it,
  /// and `gradient_norm` is the norm of those.
  Optimizer at(const LearningRateOptions& rate, std::int64_t step, double gradient_norm = 0,
               double loss_scale = 1) const;
  /// Set by `at`. The limit is the clip value times the loss scale. The factor is what clipping the
  /// norm requires, in [0, 1], or NaN if the norm is NaN; divided by the loss scale.
  const GradientScaling& gradient_scaling() const { return scaling_; }

  /// The state tensors of this optimizer and of its groups, and the average if it keeps one; each
  /// exists for all parameters.
  std::vector<std::string> state_names() const;
  /// The state tensors of the parameters in no group.
  std::vector<std::string> own_state_names() const { return state_names_(*this); }
  /// The optimizer's usual learning rate, if it has one.
  std::optional<double> usual_lr() const { return usual_lr_; }
  /// Whether gradients are scaled by update_all, of all groups. Else a slice is scaled in copies:
  /// one with its elements limited if there is a limit, and one multiplied if there is a factor.
  bool scales_gradients() const;
  /// Whether weights and state tensors stay zero where they and the gradient are; of all groups.
  bool keeps_zeroes() const;
  /// Updates a slice of parameters in no group.
  void update(const Stream& stream, const OptimizerStep& step, const OptimizerSlice& slice) const {
    const UpdateBy<Optimizer> one{*this, step, slice};
    update_all_(stream, {&one, 1});
  }
  /// Updates by this optimizer and those of its groups.
  void update_all(const Stream& stream, std::span<const UpdateBy<Optimizer>> updates) const;
  /// Throws Error{bad_options} for hyper-parameters outside their declared ranges, and for those
  /// that contradict each other; also those of the groups.
  void check() const;
  /// Throws Error{bad_options} for a pattern that matches none of a model's parameters, and for a
  /// parameter in two groups.
  void check_groups(const std::vector<std::string>& parameters) const;

 private:
  static OptimizerSlice with_scaled_gradient(const Stream& stream, const OptimizerStep& step,
                                             const OptimizerSlice& slice);

  std::vector<std::string> (*state_names_)(const Optimizer& self);
  void (*update_all_)(const Stream& stream, std::span<const UpdateBy<Optimizer>> updates);
  bool scales_gradients_;
  bool (*keeps_zeroes_)(const Optimizer& self);
  void (*check_)(const Optimizer& self);
  std::optional<double> usual_lr_;
  std::vector<ParameterGroup> groups_;
  double clip_value_ = 0, clip_norm_ = 0, average_decay_ = 0;
  GradientScaling scaling_;
};

/// Parameters that have hyper-parameters of their own.
struct ParameterGroup {
  /// Patterns of fnmatch(3) for their names: in "*.bias", * stands for any text.
  std::vector<std::string> parameters;
  /// The run's optimizer with the hyper-parameters of the group. State tensors that it does not
  /// keep are zero for these parameters.
  Optimizer optimizer;
  /// The base learning rate of the group; the schedule scales it as it scales the run's rate
  /// (PyTorch: LambdaLR). None: the run's rate.
  std::optional<double> lr = {};
  /// An optimizer's groups with a learning rate of 0 are (PyTorch: requires_grad=False).
  bool frozen = false;
};

}  // namespace troupe

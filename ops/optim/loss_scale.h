#pragma once
// Loss scaling: the backward pass begins with a gradient that is multiplied by a power of two, so
// that small gradients do not vanish in f16, and the optimizer divides by it (P. Micikevicius et
// al., "Mixed Precision Training", ICLR 2018, section 3.2). The product with a power of two is
// exact: as long as no gradient leaves the range of its type, a scale changes no bit of the
// weights.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace troupe {

enum class LossScaling : std::uint8_t {
  automatic,  ///< dynamic where products are f16 (Stream::products), else none
  none,
  dynamic,  ///< the scale follows the gradients, as that of PyTorch's GradScaler
  fixed,    ///< the first scale in all steps
};

/// All of them, with their names in options files.
inline constexpr std::array<std::pair<std::string_view, LossScaling>, 4> loss_scaling_names{
    {{"auto", LossScaling::automatic},
     {"none", LossScaling::none},
     {"dynamic", LossScaling::dynamic},
     {"static", LossScaling::fixed}}};

/// How the scale changes. Scales and factors are powers of two, scales from 2^-126 to 2^126.
struct LossScaleOptions {
  LossScaling mode = LossScaling::automatic;
  double init_scale = 65536;  ///< of the first step
  /// After so many finite steps in a row the scale grows by the factor, up to 2^126.
  std::int64_t growth_interval = 2000;
  double growth_factor = 2;
  double backoff_factor = 0.5;  ///< of the scale after an overflow, down to min_scale
  double min_scale = 1;
  /// The n-th overflow since the scale last grew, and each one after it, lowers the scale
  /// (DeepSpeed: hysteresis).
  std::int64_t hysteresis = 1;

  bool operator==(const LossScaleOptions&) const = default;
};

/// The scale of a step, which is the same in all stages. It is a part of their committed state. A
/// step is finite if its gradient is, and otherwise an overflow.
struct LossScale {
  double scale = 1;
  std::int64_t finite_steps = 0;  ///< since the scale last grew, or the last overflow
  std::int64_t overflows = 0;     ///< since the scale last grew; of a fixed one: in a row

  bool operator==(const LossScale&) const = default;
  static void members(auto& self, auto& visit) {
    visit(self.scale);
    visit(self.finite_steps);
    visit(self.overflows);
  }
};

/// Throws Error{bad_options} for numbers that make no scale.
void check(const LossScaleOptions& options);

/// Whether a number is a valid scale: a power of two from 2^-126 to 2^126.
bool is_loss_scale(double scale);

/// The scale of the open step of a run whose last step has left `committed`, if any has. Options
/// may differ from those of that step.
LossScale loss_scale_after(const LossScaleOptions& options,
                           const std::optional<LossScale>& committed);

/// The scale of the step after one with scale `now`.
LossScale next_loss_scale(const LossScaleOptions& options, const LossScale& now, bool finite);

/// Overflows in a row, with a fixed scale, that end a run: nothing will change.
inline constexpr std::int64_t most_overflows_in_a_row = 50;

/// Whether the next overflow ends the run: a dynamic scale is the smallest already, or with it a
/// fixed one has had most_overflows_in_a_row.
bool cannot_recover(const LossScaleOptions& options, const LossScale& now);

}  // namespace troupe

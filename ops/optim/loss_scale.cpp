#include "ops/optim/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr double largest = 0x1p126;  // its inverse is a normal number of f32 as well

bool is_power_of_two(double number) {
  int exponent = 0;
  return std::isfinite(number) && std::frexp(number, &exponent) == 0.5;
}

/// `low` and `high` are powers of two.
void require_power(std::string_view name, double value, double low, double high) {
  if (is_power_of_two(value) && value >= low && value <= high) return;
  std::string remedy;
  if (value > low && value < high) {
    const double below = std::exp2(std::floor(std::log2(value)));
    remedy = fmt::format("give a power of two, such as {} or {}", below, 2 * below);
  } else {
    remedy = fmt::format("give a power of two from {} to {}", low, high);
  }
  throw Error(ErrorCode::bad_options, fmt::format("`{}` is {}", name, value), std::move(remedy));
}

void require_count(std::string_view name, std::int64_t value) {
  if (value >= 1) return;
  throw Error(ErrorCode::bad_options, fmt::format("`{}` is {}", name, value), "give a number >= 1");
}

}  // namespace

bool is_loss_scale(double scale) {
  return is_power_of_two(scale) && scale >= 1 / largest && scale <= largest;
}

void check(const LossScaleOptions& o) {
  require_power("init_scale", o.init_scale, 1 / largest, largest);
  require_power("growth_factor", o.growth_factor, 2, largest);
  require_power("backoff_factor", o.backoff_factor, 1 / largest, 0.5);
  require_power("min_scale", o.min_scale, 1 / largest, largest);
  require_count("growth_interval", o.growth_interval);
  require_count("hysteresis", o.hysteresis);
  if (o.mode != LossScaling::fixed && o.min_scale > o.init_scale)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`min_scale` is {}, more than `init_scale`, {}", o.min_scale, o.init_scale),
        "lower `min_scale`, or raise `init_scale`");
}

LossScale loss_scale_after(const LossScaleOptions& options,
                           const std::optional<LossScale>& committed) {
  if (!committed) return {.scale = options.init_scale};
  if (options.mode == LossScaling::fixed)
    return {.scale = options.init_scale,
            .overflows = committed->scale == options.init_scale ? committed->overflows : 0};
  LossScale now = *committed;
  now.scale = std::max(now.scale, options.min_scale);
  return now;
}

LossScale next_loss_scale(const LossScaleOptions& options, const LossScale& now, bool finite) {
  if (options.mode == LossScaling::fixed)
    return {.scale = now.scale, .overflows = finite ? 0 : now.overflows + 1};
  LossScale next = now;
  if (!finite) {
    next.finite_steps = 0;
    if (++next.overflows >= options.hysteresis)
      next.scale = std::max(now.scale * options.backoff_factor, options.min_scale);
    return next;
  }
  if (++next.finite_steps < options.growth_interval) return next;
  const double grown = now.scale * options.growth_factor;
  return {.scale = grown <= largest ? grown : now.scale};
}

bool cannot_recover(const LossScaleOptions& options, const LossScale& now) {
  if (options.mode == LossScaling::fixed) return now.overflows + 1 >= most_overflows_in_a_row;
  return now.scale <= options.min_scale && now.overflows + 1 >= options.hysteresis;
}

}  // namespace troupe

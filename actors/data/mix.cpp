#include "actors/data/mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "runtime/error.h"
#include "runtime/random.h"

namespace troupe {
namespace {

/// A sequence of random numbers of one purpose.
class Numbers {
 public:
  Numbers(std::uint64_t seed, const MessageKey& key, std::string_view purpose)
      : key_{seed, key.step, key.micro_batch, operation_id(purpose)} {}

  std::array<std::uint32_t, 4> next() { return key_.block(block_++); }
  double uniform() { return (next()[0] + 0.5) * 0x1p-32; }  // in (0, 1)

 private:
  RandomKey key_;
  std::uint32_t block_ = 0;
};

/// A number of Gamma(alpha, 1): G. Marsaglia, W. W. Tsang, "A simple method for generating gamma
/// variables", ACM TOMS 26(3), 2000, with the power of a uniform number for alpha < 1.
double draw_gamma(Numbers& numbers, double alpha) {
  if (alpha < 1) {
    const double power = std::pow(numbers.uniform(), 1 / alpha);
    return power * draw_gamma(numbers, alpha + 1);
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal_numbers(numbers.next())[0], v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(numbers.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v;
  }
}

double draw_beta(Numbers& numbers, double alpha) {
  const double x = draw_gamma(numbers, alpha), y = draw_gamma(numbers, alpha);
  return x + y > 0 ? x / (x + y) : 1;  // both may vanish for a tiny alpha
}

/// Calls body(own, partner) with the elements of each sample and those that its partner had.
template <class T, class Body>
void with_partners(Tensor& samples, const Body& body) {
  const Tensor before = samples.clone();
  const std::int64_t count = samples.dim(0);
  const auto size = static_cast<std::size_t>(samples.element_count() / count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto of = [&](const Tensor& from, std::int64_t row) {
      return std::span(from.data<T>() + static_cast<std::size_t>(row) * size, size);
    };
    body(std::span(samples.data<T>() + static_cast<std::size_t>(i) * size, size),
         of(before, (i + count - 1) % count));
  }
}

template <class T>
void mix_all(Tensor& samples, double share) {
  with_partners<T>(samples, [&](std::span<T> own, std::span<const T> partner) {
    for (std::size_t e = 0; e < own.size(); ++e)
      own[e] = static_cast<T>(share * own[e] + (1 - share) * partner[e]);
  });
}

struct Rectangle {
  std::int64_t top, left, bottom, right;
};

/// As torchvision's: about 1 - share of the area, around a uniform centre, cut off at the edges.
Rectangle draw_rectangle(Numbers& numbers, double share, std::int64_t height, std::int64_t width) {
  const auto side = [&](std::int64_t length) {
    const auto centre = static_cast<std::int64_t>(numbers.uniform() * static_cast<double>(length));
    const auto half =
        static_cast<std::int64_t>(0.5 * std::sqrt(1 - share) * static_cast<double>(length));
    return std::pair(std::max<std::int64_t>(centre - half, 0), std::min(centre + half, length));
  };
  const auto [left, right] = side(width);
  const auto [top, bottom] = side(height);
  return {top, left, bottom, right};
}

template <class T>
void paste(Tensor& samples, const Rectangle& from) {
  const std::int64_t height = samples.dim(2), width = samples.dim(3);
  with_partners<T>(samples, [&](std::span<T> own, std::span<const T> partner) {
    for (std::int64_t row = 0; row < samples.dim(1) * height; ++row)
      if (row % height >= from.top && row % height < from.bottom)
        std::copy_n(partner.data() + row * width + from.left, from.right - from.left,
                    own.data() + row * width + from.left);
  });
}

}  // namespace

void check(const MixOptions& options, const Shape& sample) {
  for (const auto& [name, alpha] : {std::pair("mixup_alpha", options.mixup_alpha),
                                    std::pair("cutmix_alpha", options.cutmix_alpha)})
    if (!(std::isfinite(alpha) && alpha >= 0))
      throw Error(ErrorCode::bad_options, fmt::format("`{}` is {}", name, alpha),
                  "give a positive number, such as 0.2, or 0 for none");
  if (options.cutmix_alpha > 0 && sample.rank() != 3)
    throw Error(ErrorCode::bad_options,
                fmt::format("`cutmix_alpha` is {}, but a sample has the shape {}",
                            options.cutmix_alpha, to_string(sample)),
                "cut-mix takes images of [channels, height, width]; set it to 0");
}

void check_fits(const LossFunction& loss, const MixOptions& options) {
  if (options.any() && loss.kind != LossKind::cross_entropy)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`{}` is set, but `loss` is {}",
                    options.mixup_alpha > 0 ? "mixup_alpha" : "cutmix_alpha", name_of(loss.kind)),
        "mix samples with the loss cross_entropy only");
}

double mix(const MixOptions& options, std::uint64_t seed, const MessageKey& key, Tensor& samples) {
  if (samples.dim(0) < 2) return 1;
  Numbers numbers(seed, key, "mix");
  const bool cut =
      options.mixup_alpha == 0 || (options.cutmix_alpha > 0 && numbers.uniform() < 0.5);
  const double share = draw_beta(numbers, cut ? options.cutmix_alpha : options.mixup_alpha);
  const bool wide = samples.dtype() == DType::f64;
  if (!cut) {
    wide ? mix_all<double>(samples, share) : mix_all<float>(samples, share);
    return share;
  }
  const Rectangle pasted = draw_rectangle(numbers, share, samples.dim(2), samples.dim(3));
  wide ? paste<double>(samples, pasted) : paste<float>(samples, pasted);
  const double area =
      static_cast<double>((pasted.bottom - pasted.top) * (pasted.right - pasted.left));
  return 1 - area / static_cast<double>(samples.dim(2) * samples.dim(3));
}

}  // namespace troupe

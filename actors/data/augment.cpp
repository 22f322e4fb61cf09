#include "actors/data/augment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "runtime/random.h"
#include "runtime/text.h"

namespace troupe {
namespace {

constexpr std::int64_t padding = 4;

void check_per_channel(const std::vector<double>& values, std::int64_t channels,
                       std::string_view name, bool positive) {
  if (values.size() != 1 && static_cast<std::int64_t>(values.size()) != channels)
    throw Error(ErrorCode::bad_options,
                fmt::format("`{}` has {} ({}), but the samples have {}", name,
                            counted(std::ssize(values), "value"), fmt::join(values, ", "),
                            counted(channels, "channel")),
                "give one value for each channel, or one for all");
  for (double value : values)
    if (!std::isfinite(value) || (positive && value <= 0))
      throw Error(ErrorCode::bad_options, fmt::format("`{}` contains {}", name, value),
                  positive ? "give standard deviations above 0" : "give finite numbers");
}

template <class T>
std::vector<T> normalisation_table(const TransformOptions& options, std::int64_t channels) {
  std::vector<T> table;
  table.reserve(static_cast<std::size_t>(channels) * 256);
  const auto of = [](const std::vector<double>& values, std::int64_t channel) {
    return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
  };
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (int pixel = 0; pixel < 256; ++pixel)
      table.push_back(
          static_cast<T>((pixel / 255.0 - of(options.mean, channel)) / of(options.std, channel)));
  return table;
}

}  // namespace

// Target (y, x) shows source (y + down, x + right), or (y + down, right - x) where mirrored;
// outside of the source it shows a zero pixel.
struct SampleTransform::Window {
  bool mirrored = false;
  std::int64_t down = 0;
  std::int64_t right = 0;
};

SampleTransform::SampleTransform(const TransformOptions& options, const Shape& sample_shape)
    : options_(options),
      shape_(sample_shape.rank() == 3 ? sample_shape : Shape{1, 1, sample_shape.element_count()}) {
  if (sample_shape.rank() != 3 && !options.augment.empty())
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`augment` is set, but samples have the shape {}", to_string(sample_shape)),
        "leave it empty: only [channels, height, width] can be augmented");
  check_per_channel(options.mean, shape_[0], "mean", false);
  check_per_channel(options.std, shape_[0], "std", true);
  if (options.dtype == DType::f32)
    table_f32_ = normalisation_table<float>(options, shape_[0]);
  else if (options.dtype == DType::f64)
    table_f64_ = normalisation_table<double>(options, shape_[0]);
  else
    throw Error(ErrorCode::unsupported, fmt::format("batches of {}", name_of(options.dtype)),
                "set `dtype` to f32 or f64");
}

SampleTransform::Window SampleTransform::choose(std::int64_t epoch, std::uint32_t sample) const {
  Window window;
  const auto numbers = [&](std::string_view operation) {
    return RandomKey{options_.seed, static_cast<std::uint32_t>(epoch), sample,
                     operation_id(operation)}
        .block(0);
  };
  for (Augment augment : options_.augment) {
    if (augment == Augment::flip) {
      if (uniform_float(numbers("augment.flip")[0]) >= 0.5f) continue;
      window.mirrored = true;
      window.right = shape_[2] - 1 + window.right;
    } else {
      const auto drawn = numbers("augment.crop");
      const auto offset = [](std::uint32_t bits) {  // uniform in [-padding, padding]
        return static_cast<std::int64_t>((std::uint64_t{bits} * (2 * padding + 1)) >> 32) - padding;
      };
      window.down += offset(drawn[0]);
      window.right += window.mirrored ? -offset(drawn[1]) : offset(drawn[1]);
    }
  }
  return window;
}

template <>
const float* SampleTransform::table<float>() const {
  return table_f32_.data();
}
template <>
const double* SampleTransform::table<double>() const {
  return table_f64_.data();
}

template <class T>
void SampleTransform::apply(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample,
                            T* out) const {
  const std::int64_t height = shape_[1], width = shape_[2];
  const Window window = choose(epoch, sample);
  // Columns [from, to) lie inside of the source.
  const std::int64_t from = std::clamp<std::int64_t>(
      window.mirrored ? window.right - width + 1 : -window.right, 0, width);
  const std::int64_t to = std::clamp<std::int64_t>(
      window.mirrored ? window.right + 1 : width - window.right, from, width);
  const T* values = table<T>();
  for (std::int64_t channel = 0; channel < shape_[0]; ++channel, values += 256) {
    for (std::int64_t y = 0; y < height; ++y, out += width) {
      const std::int64_t source = y + window.down;
      if (source < 0 || source >= height) {
        std::fill_n(out, width, values[0]);
        continue;
      }
      const std::uint8_t* row = pixels + (channel * height + source) * width;
      std::fill(out, out + from, values[0]);
      if (window.mirrored)
        for (std::int64_t x = from; x < to; ++x) out[x] = values[row[window.right - x]];
      else
        for (std::int64_t x = from; x < to; ++x) out[x] = values[row[window.right + x]];
      std::fill(out + to, out + width, values[0]);
    }
  }
}

template void SampleTransform::apply(const std::uint8_t*, std::int64_t, std::uint32_t,
                                     float*) const;
template void SampleTransform::apply(const std::uint8_t*, std::int64_t, std::uint32_t,
                                     double*) const;

}  // namespace troupe

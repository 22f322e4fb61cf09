#include "actors/data/augment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "actors/data/auto_augment.h"
#include "actors/data/random_box.h"
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
void fill_normalised(const TransformOptions& options, std::int64_t channels, T* numbers) {
  const auto of = [](const std::vector<double>& values, std::int64_t channel) {
    return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
  };
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (int pixel = 0; pixel < 256; ++pixel)
      *numbers++ =
          static_cast<T>((pixel / 255.0 - of(options.mean, channel)) / of(options.std, channel));
}

/// Whether it needs the bytes of the whole image, because it does more than choose pixels of it.
constexpr bool takes_bytes(Augment augment) {
  switch (augment) {
    case Augment::color_jitter:
    case Augment::trivial_augment:
    case Augment::rand_augment:
    case Augment::auto_augment:
    case Augment::auto_augment_cifar10:
      return true;
    default:
      return false;
  }
}

/// What SampleTransform::gather writes for the pixels of a line: their numbers in one channel.
template <class T>
struct NumberLine {
  const T* numbers;  // 256

  T of_zero() const { return numbers[0]; }
  void copy(const std::uint8_t* from, std::int64_t count, T* out) const {
    for (std::int64_t i = 0; i < count; ++i) out[i] = numbers[from[i]];
  }
  /// The first is *from, the next one lies before it.
  void mirror(const std::uint8_t* from, std::int64_t count, T* out) const {
    for (std::int64_t i = 0; i < count; ++i) out[i] = numbers[from[-i]];
  }
};

/// The same for pixels that stay as they are.
struct ByteLine {
  static std::uint8_t of_zero() { return 0; }
  static void copy(const std::uint8_t* from, std::int64_t count, std::uint8_t* out) {
    std::memcpy(out, from, static_cast<std::size_t>(count));
  }
  static void mirror(const std::uint8_t* from, std::int64_t count, std::uint8_t* out) {
    std::uint64_t eight = 0;
    for (; count >= 8; count -= 8, from -= 8, out += 8) {
      std::memcpy(&eight, from - 7, 8);
      eight = __builtin_bswap64(eight);
      std::memcpy(out, &eight, 8);
    }
    for (std::int64_t i = 0; i < count; ++i) out[i] = from[-i];
  }
};

}  // namespace

Tensor normalised_pixels(const TransformOptions& options, std::int64_t channels) {
  check_per_channel(options.mean, channels, "mean", false);
  check_per_channel(options.std, channels, "std", true);
  if (options.dtype != DType::f32 && options.dtype != DType::f64)
    throw Error(ErrorCode::unsupported,
                fmt::format("samples cannot be prepared in {}", name_of(options.dtype)),
                "set `dtype` to f32 or f64");
  Tensor numbers = Tensor::empty({channels, 256}, options.dtype, Device::cpu());
  if (options.dtype == DType::f64)
    fill_normalised(options, channels, numbers.data<double>());
  else
    fill_normalised(options, channels, numbers.data<float>());
  return numbers;
}

// Target t shows source start + t, or start - t where mirrored; outside of the source it shows a
// zero pixel.
struct SampleTransform::Axis {
  std::int64_t size = 0;
  std::int64_t start = 0;
  bool mirrored = false;

  void mirror() {
    start += mirrored ? 1 - size : size - 1;
    mirrored = !mirrored;
  }
  void move(std::int64_t by) { start += mirrored ? -by : by; }
  std::int64_t source(std::int64_t target) const {
    return mirrored ? start - target : start + target;
  }
  // Targets [from(), to()) lie inside of the source.
  std::int64_t from() const {
    return std::clamp<std::int64_t>(mirrored ? start - size + 1 : -start, 0, size);
  }
  std::int64_t to() const {
    return std::clamp<std::int64_t>(mirrored ? start + 1 : size - start, from(), size);
  }
};

struct SampleTransform::Window {
  Axis rows, columns;
};

void check_augmentations(const TransformOptions& options) {
  const std::vector<Augment>& augment = options.augment;
  const auto repeats = [&](Augment one) { return std::ranges::count(augment, one) > 1; };
  if (std::ranges::any_of(augment, repeats))
    throw Error(ErrorCode::bad_options, "`augment` names an augmentation twice", "name each once");
  for (std::size_t i = 0; i < augment.size(); ++i) {
    if (augment[i] == Augment::random_resized_crop && i > 0)
      throw Error(ErrorCode::bad_options,
                  "`augment` has random_resized_crop after other augmentations",
                  "name it first: it takes a part of the stored image");
    if (augment[i] == Augment::random_erasing && i + 1 < augment.size())
      throw Error(ErrorCode::bad_options, "`augment` has random_erasing before other augmentations",
                  "name it last: it acts on normalised samples");
  }
  if (std::ranges::count(augment, Augment::color_jitter) == 0) return;
  const std::vector<double>& ranges = options.color_jitter;
  if ((ranges.size() != 3 && ranges.size() != 4) ||
      !std::ranges::all_of(ranges, [](double range) { return range >= 0 && range < 1e6; }) ||
      (ranges.size() == 4 && ranges[3] > 0.5))
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`augment` has color_jitter, and `color_jitter` is [{}]",
                    fmt::join(ranges, ", ")),
        "give the ranges of brightness, contrast, saturation and, at most 0.5, of hue, such "
        "as [0.4, 0.4, 0.4] or [0.4, 0.4, 0.4, 0.1]");
}

SampleTransform::SampleTransform(const TransformOptions& options, const Shape& sample_shape)
    : options_(options),
      shape_(sample_shape.rank() == 3 ? sample_shape : Shape{1, 1, sample_shape.element_count()}) {
  check_augmentations(options);
  if (sample_shape.rank() != 3 && !options.augment.empty())
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`augment` is set, but samples have the shape {}", to_string(sample_shape)),
        "leave it empty: only [channels, height, width] can be augmented");
  if (std::ranges::any_of(options.augment, takes_bytes) && shape_[0] != 1 && shape_[0] != 3)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`augment` needs grey or RGB images, but samples have {} channels", shape_[0]),
        "leave out color_jitter, trivial_augment, rand_augment, auto_augment and "
        "auto_augment_cifar10");
  numbers_ = normalised_pixels(options, shape_[0]);
}

RandomKey SampleTransform::key(std::string_view operation, std::int64_t epoch,
                               std::uint32_t sample) const {
  return {options_.seed, static_cast<std::uint32_t>(epoch), sample, operation_id(operation)};
}

bool SampleTransform::takes_part() const {
  return !options_.augment.empty() && options_.augment.front() == Augment::random_resized_crop;
}

ImageBox SampleTransform::part(ImageSize image, std::int64_t epoch, std::uint32_t sample) const {
  return random_resized_crop(image, key("augment.random_resized_crop", epoch, sample));
}

// Where the geometric ones of these augmentations move the pixels.
SampleTransform::Window SampleTransform::choose(std::span<const Augment> augment,
                                                std::int64_t epoch, std::uint32_t sample) const {
  Window window{.rows = {.size = shape_[1]}, .columns = {.size = shape_[2]}};
  const auto numbers = [&](std::string_view operation) {
    return key(operation, epoch, sample).block(0);
  };
  const auto offset = [](std::uint32_t bits) {  // uniform in [-padding, padding]
    return static_cast<std::int64_t>((std::uint64_t{bits} * (2 * padding + 1)) >> 32) - padding;
  };
  for (const Augment one : augment) {
    if (one == Augment::flip) {
      if (uniform_float(numbers("augment.flip")[0]) < 0.5f) window.columns.mirror();
    } else if (one == Augment::vertical_flip) {
      if (uniform_float(numbers("augment.vertical_flip")[0]) < 0.5f) window.rows.mirror();
    } else if (one == Augment::crop) {
      const auto drawn = numbers("augment.crop");
      window.rows.move(offset(drawn[0]));
      window.columns.move(offset(drawn[1]));
    }
  }
  return window;
}

PixelWindow SampleTransform::window(std::int64_t epoch, std::uint32_t sample) const {
  const auto [rows, columns] = choose(options_.augment, epoch, sample);
  return {rows.start, rows.mirrored ? -1 : 1, columns.start, columns.mirrored ? -1 : 1};
}

// `line_of(channel)` writes the lines of a channel.
template <class T, class LineOf>
void SampleTransform::gather(const std::uint8_t* pixels, const Window& window, LineOf line_of,
                             T* out) const {
  const std::int64_t height = shape_[1], width = shape_[2];
  const std::int64_t from = window.columns.from(), to = window.columns.to();
  const std::int64_t top = window.rows.from(), bottom = window.rows.to();
  const std::int64_t start = window.columns.start;
  for (std::int64_t channel = 0; channel < shape_[0]; ++channel) {
    const auto line = line_of(channel);
    for (std::int64_t y = 0; y < height; ++y, out += width) {
      if (y < top || y >= bottom) {
        std::fill_n(out, width, line.of_zero());
        continue;
      }
      const std::uint8_t* row = pixels + (channel * height + window.rows.source(y)) * width;
      std::fill(out, out + from, line.of_zero());
      if (window.columns.mirrored)
        line.mirror(row + start - from, to - from, out + from);
      else
        line.copy(row + start + from, to - from, out + from);
      std::fill(out + to, out + width, line.of_zero());
    }
  }
}

template <class T>
void SampleTransform::erase(const ImageBox& box, T* out) const {
  for (std::int64_t channel = 0; channel < shape_[0]; ++channel)
    for (std::int64_t y = box.top; y < box.top + box.height; ++y)
      std::fill_n(out + (channel * shape_[1] + y) * shape_[2] + box.left, box.width, T{0});
}

void SampleTransform::change(Augment augment, std::span<std::uint8_t> pixels, std::int64_t epoch,
                             std::uint32_t sample) const {
  const SizedImage image{{pixels, shape_[0]}, shape_[1], shape_[2]};
  const std::vector<double>& ranges = options_.color_jitter;
  switch (augment) {
    case Augment::color_jitter:
      return color_jitter(image.planes,
                          {ranges[0], ranges[1], ranges[2], ranges.size() == 4 ? ranges[3] : 0},
                          key("augment.color_jitter", epoch, sample));
    case Augment::trivial_augment:
      return trivial_augment(image, key("augment.trivial_augment", epoch, sample));
    case Augment::rand_augment:
      return rand_augment(image, key("augment.rand_augment", epoch, sample));
    case Augment::auto_augment:
      return auto_augment(image, AutoAugmentPolicy::imagenet,
                          key("augment.auto_augment", epoch, sample));
    case Augment::auto_augment_cifar10:
      return auto_augment(image, AutoAugmentPolicy::cifar10,
                          key("augment.auto_augment_cifar10", epoch, sample));
    default:
      throw Error(ErrorCode::internal, "an augmentation that takes no bytes");
  }
}

template <class T>
void SampleTransform::apply(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample,
                            T* out) const {
  const auto bytes = [](std::int64_t) { return ByteLine(); };
  std::span<const Augment> augment = options_.augment;
  std::vector<std::uint8_t> changed, moved;
  const auto next = [&] { return std::ranges::find_if(augment, takes_bytes); };
  for (auto found = next(); found != augment.end(); found = next()) {  // pixels move in between
    const auto before = static_cast<std::size_t>(found - augment.begin());
    moved.resize(static_cast<std::size_t>(shape_.element_count()));
    gather(pixels, choose(augment.first(before), epoch, sample), bytes, moved.data());
    change(*found, moved, epoch, sample);
    changed.swap(moved);
    pixels = changed.data();
    augment = augment.subspan(before + 1);
  }
  const Window window = choose(augment, epoch, sample);
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    gather(pixels, window, bytes, out);
  } else {
    const auto numbers = [of = numbers_.data<T>()](std::int64_t channel) {
      return NumberLine<T>{of + channel * 256};
    };
    gather(pixels, window, numbers, out);
    if (augment.empty() || augment.back() != Augment::random_erasing) return;
    if (const auto box =
            random_erasing({shape_[2], shape_[1]}, key("augment.random_erasing", epoch, sample)))
      erase(*box, out);
  }
}

template void SampleTransform::apply(const std::uint8_t*, std::int64_t, std::uint32_t,
                                     std::uint8_t*) const;
template void SampleTransform::apply(const std::uint8_t*, std::int64_t, std::uint32_t,
                                     float*) const;
template void SampleTransform::apply(const std::uint8_t*, std::int64_t, std::uint32_t,
                                     double*) const;

}  // namespace troupe

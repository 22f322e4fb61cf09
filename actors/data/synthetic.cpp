// Made-up images that can be learnt: each class has a pattern of 4 x 4 bright and dark cells a
// channel, and every pixel noise of its own.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "actors/data/dataset_content.h"
#include "runtime/error.h"
#include "runtime/random.h"

namespace troupe {
namespace {

constexpr std::int64_t cells = 4;  // along each side
constexpr int middle = 128;
constexpr int contrast = 48;      // of a cell against the middle
constexpr int noise_range = 128;  // pixels stay in [16, 239]

void check(const DatasetOptions& o) {
  const bool sizes = o.shape.rank() == 3 && o.shape.element_count() > 0;
  if (!sizes || o.classes < 1 || o.count < 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("synthetic data: data.shape {}, data.classes {}, data.count {}",
                            to_string(o.shape), o.classes, o.count),
                "a shape [channels, height, width], and numbers of at least 1");
}

// The mean pixel values of a class, as bytes in [C, H, W].
std::vector<std::uint8_t> pattern(const DatasetOptions& o, std::int64_t label) {
  const std::int64_t height = o.shape[1], width = o.shape[2];
  const RandomKey key{o.seed, 0, static_cast<std::uint32_t>(label),
                      operation_id("synthetic.pattern")};
  std::vector<std::uint8_t> result;
  result.reserve(static_cast<std::size_t>(o.shape.element_count()));
  for (std::int64_t channel = 0; channel < o.shape[0]; ++channel) {
    const std::uint32_t signs = key.block(static_cast<std::uint32_t>(channel))[0];
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t cell = y * cells / height * cells + x * cells / width;
        result.push_back(
            static_cast<std::uint8_t>(middle + ((signs >> cell & 1) ? contrast : -contrast)));
      }
  }
  return result;
}

void draw(std::span<const std::uint8_t> pattern, const RandomKey& key, std::uint8_t* out) {
  std::array<std::uint32_t, 4> numbers{};
  for (std::size_t i = 0; i < pattern.size(); ++i) {  // 16 pixels a block, a byte each
    if (i % 16 == 0) numbers = key.block(static_cast<std::uint32_t>(i / 16));
    const int byte = static_cast<int>(numbers[i % 16 / 4] >> (i % 4 * 8) & 0xff);
    out[i] = static_cast<std::uint8_t>(pattern[i] + byte / 2 - noise_range / 2);
  }
}

/// Memory for all samples, with what helps where it is not there.
Tensor for_samples(const Shape& shape, DType dtype) {
  try {
    return Tensor::empty(shape, dtype, Device::cpu());
  } catch (const Error& error) {
    throw Error(error.code(), "synthetic samples: " + error.message(),
                "lower data.count, or take fewer of them with data.limit");
  }
}

// Sample i belongs to class i % classes.
Tensor make_labels(const DatasetOptions& o, std::int64_t count) {
  Tensor labels = for_samples(Shape{count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = i % o.classes;
  return labels;
}

Tensor make_images(const DatasetOptions& o, std::int64_t count, std::string_view operation) {
  const Shape shape{count, o.shape[0], o.shape[1], o.shape[2]};
  const auto size = static_cast<std::uint64_t>(o.shape.element_count());
  Tensor images = for_samples(shape, DType::u8);
  std::vector<std::vector<std::uint8_t>> patterns;
  for (std::int64_t label = 0; label < std::min(o.classes, count); ++label)
    patterns.push_back(pattern(o, label));
  for (std::int64_t i = 0; i < count; ++i) {
    const RandomKey key{o.seed, 0, static_cast<std::uint32_t>(i), operation_id(operation)};
    draw(patterns[static_cast<std::size_t>(i % o.classes)], key,
         images.data<std::uint8_t>() + static_cast<std::uint64_t>(i) * size);
  }
  return images;
}

Dataset::Content::Part make_part(const DatasetOptions& o, std::int64_t count, std::launch when,
                                 std::string_view operation) {
  return {make_labels(o, count), std::async(when, make_images, o, count, operation).share()};
}

}  // namespace

Dataset detail::make_synthetic(const DatasetOptions& options) {
  check(options);
  const auto limited = [](std::int64_t count, std::int64_t limit) {
    return limit == 0 ? count : std::min(count, limit);
  };
  const std::int64_t train = limited(options.count, options.limit);
  const std::int64_t test =
      limited(std::max<std::int64_t>(1, options.count / 6), options.test_limit);
  auto content = std::make_shared<Dataset::Content>();
  content->options = options;
  content->classes = options.classes;
  content->sample_shape = options.shape;
  content->train = make_part(options, train, std::launch::async, "synthetic.train");
  content->test = make_part(options, test, std::launch::deferred, "synthetic.test");
  return Dataset(std::move(content));
}

}  // namespace troupe

#include "actors/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "actors/data/memory_dataset.h"
#include "runtime/error.h"
#include "runtime/random.h"

namespace troupe {
namespace {

constexpr std::int64_t cells = 4;  // along each side
constexpr int middle = 128;
constexpr int contrast = 48;      // of a cell against the middle
constexpr int noise_range = 128;  // pixels stay in [16, 239]

constexpr double largest_size = 1e6;   // of one axis of a tensor
constexpr double most_samples = 1e15;  // far above any run, below overflow

Shape shape_of(const Synthetic& o) {
  if (o.shape.size() != 3)
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::shape` has {} sizes, not 3", o.shape.size()),
                "give channels, height and width, such as [1, 28, 28]");
  constexpr double most_elements = 1e12;  // more than any memory, far below overflow
  double elements = 1;
  for (const std::int64_t size : o.shape) elements *= static_cast<double>(size);
  if (elements > most_elements)
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::shape` has {:.0e} elements in a sample", elements),
                "give a smaller shape");
  return Shape(o.shape);
}

// The mean pixel values of a class, as bytes in [C, H, W].
std::vector<std::uint8_t> pattern(const Shape& shape, std::uint64_t seed, std::int64_t label) {
  const std::int64_t height = shape[1], width = shape[2];
  const RandomKey key{seed, 0, static_cast<std::uint32_t>(label),
                      operation_id("synthetic.pattern")};
  std::vector<std::uint8_t> result;
  result.reserve(static_cast<std::size_t>(shape.element_count()));
  for (std::int64_t channel = 0; channel < shape[0]; ++channel) {
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

/// Memory for all samples; an error for want of it names the settings to lower.
Tensor for_samples(const Shape& shape, DType dtype) {
  try {
    return Tensor::empty(shape, dtype, Device::cpu());
  } catch (const Error& error) {
    throw Error(error.code(), "synthetic samples: " + error.message(),
                "lower `Dataset::count`, or take fewer of them with `Dataset::limit`");
  }
}

// Sample i belongs to class i % classes.
Tensor make_labels(std::int64_t classes, std::int64_t count) {
  Tensor labels = for_samples(Shape{count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = i % classes;
  return labels;
}

Tensor make_images(const Shape& shape, std::int64_t classes, std::uint64_t seed, std::int64_t count,
                   std::string_view operation) {
  const auto size = static_cast<std::uint64_t>(shape.element_count());
  Tensor images = for_samples(Shape{count, shape[0], shape[1], shape[2]}, DType::u8);
  std::vector<std::vector<std::uint8_t>> patterns;
  for (std::int64_t label = 0; label < std::min(classes, count); ++label)
    patterns.push_back(pattern(shape, seed, label));
  for (std::int64_t i = 0; i < count; ++i) {
    const RandomKey key{seed, 0, static_cast<std::uint32_t>(i), operation_id(operation)};
    draw(patterns[static_cast<std::size_t>(i % classes)], key,
         images.data<std::uint8_t>() + static_cast<std::uint64_t>(i) * size);
  }
  return images;
}

MemoryDataset::Part make_part(const Synthetic& o, std::uint64_t seed, std::int64_t count,
                              std::launch when, std::string_view operation) {
  return {make_labels(o.classes, count),
          std::async(when, make_images, shape_of(o), o.classes, seed, count, operation).share()};
}

}  // namespace

OptionFields Synthetic::options() {
  return {field("data.shape", shape, "channels, height and width of a sample",
                {.at_least = 1, .at_most = largest_size, .setting = "Dataset::shape"}),
          field("data.classes", classes, "number of classes",
                {.at_least = 2, .at_most = largest_size, .setting = "Dataset::classes"}),
          field("data.count", count, "training samples; a sixth as many test samples, at least one",
                {.at_least = 1, .at_most = most_samples, .setting = "Dataset::count"})};
}

DatasetSummary Synthetic::describe(const DatasetOptions& options) const {
  return {.samples = {.shape = shape_of(*this), .dtype = DType::u8, .classes = classes},
          .train = options.taken(Split::train, count),
          .test = options.taken(Split::test, std::max<std::int64_t>(1, count / 6))};
}

std::shared_ptr<const SampleReader> Synthetic::open(const DatasetOptions& options) const {
  const DatasetSummary summary = describe(options);
  return std::make_shared<MemoryDataset>(
      name, summary.samples,
      make_part(*this, options.seed, summary.train, std::launch::async, "synthetic.train"),
      make_part(*this, options.seed, summary.test, std::launch::deferred, "synthetic.test"));
}

}  // namespace troupe

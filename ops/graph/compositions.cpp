#include "ops/graph/compositions.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/graph/shapes.h"
#include "runtime/error.h"

namespace troupe::graph {
namespace {

/// The rows (columns) that a last window lacks: PyTorch leaves it out if it begins behind the
/// image.
std::int64_t rows_beyond(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t steps = size + 2 * padding - kernel + stride - 1;
  if (kernel < 1 || stride < 1 || padding < 0 || std::max({kernel, stride, padding}) > most ||
      steps < 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("max_pool: a window of {} with stride {} and padding {} on {} pixels",
                            kernel, stride, padding, size),
                "choose a window that fits into the image");
  std::int64_t last = steps / stride;
  if (last * stride >= size + padding) --last;
  return std::max<std::int64_t>(0, last * stride + kernel - 2 * padding - size);
}

/// x with its last row (column) repeated `count` times behind it.
ValueId extended(const AddNode& add, ValueId x, Sizes& shape, int axis, std::int64_t count) {
  constexpr std::int64_t most = 1024;
  if (count == 0) return x;
  if (count > most)
    throw Error(ErrorCode::bad_shape,
                fmt::format("max_pool: a window reaches {} pixels beyond the image", count));
  Size& size = shape[static_cast<std::size_t>(axis)];
  std::vector<ValueId> parts(static_cast<std::size_t>(count) + 1,
                             add(Slice{axis, size.fixed - 1, 1}, {x}));
  parts[0] = x;
  size.fixed += count;
  return add(Concatenate{axis}, parts);
}

}  // namespace

ValueId add_group_norm(const AddNode& add, ValueId x, Sizes shape, std::int64_t groups,
                       double epsilon, ValueId weight, ValueId bias) {
  const bool fits =
      shape.size() >= 2 && has_batch_axis(shape) && groups > 0 && shape[1].fixed % groups == 0;
  if (!fits)
    throw Error(ErrorCode::bad_shape,
                fmt::format("group norm: {} groups of {}", groups, to_string(shape)),
                "the first axis is that of the samples, and the channels are a multiple of groups");
  const std::int64_t features = product(std::span(shape).subspan(1)).fixed / groups;
  const ValueId rows = add(Reshape{{shape[0], fixed(groups), fixed(features)}}, {x});
  ValueId y = add(LayerNorm{.features = features, .epsilon = epsilon}, {rows});
  y = add(Reshape{shape}, {y});
  Sizes by_channel(shape.size() - 1, fixed(1));
  by_channel[0] = shape[1];
  if (weight.index >= 0)
    y = add(Arithmetic{ArithmeticOperation::multiply}, {y, add(Reshape{by_channel}, {weight})});
  if (bias.index >= 0)
    y = add(Arithmetic{ArithmeticOperation::add}, {y, add(Reshape{by_channel}, {bias})});
  return y;
}

// The layer norm of x and -x together: their mean is 0, and their variance is the mean square.
ValueId add_rms_norm(const AddNode& add, ValueId x, const Sizes& shape, std::size_t axes,
                     double epsilon, ValueId weight) {
  const std::size_t outer = shape.size() - std::min(axes, shape.size());
  const Size features = product(std::span(shape).subspan(outer));
  if (axes == 0 || axes > shape.size() || !is_fixed(features))
    throw Error(ErrorCode::bad_shape,
                fmt::format("rms norm: {} axes of {}", axes, to_string(shape)),
                "the first axis is that of the samples");
  Sizes rows(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(outer));
  rows.push_back(features);
  const int last = static_cast<int>(outer);
  x = add(Reshape{rows}, {x});
  x = add(Concatenate{last}, {x, add(Affine{-1.0, 0.0}, {x})});
  x = add(LayerNorm{.features = 2 * features.fixed, .epsilon = epsilon}, {x});
  x = add(Reshape{shape}, {add(Slice{last, 0, features.fixed}, {x})});
  return weight.index >= 0 ? add(Arithmetic{ArithmeticOperation::multiply}, {x, weight}) : x;
}

// At 0 the gradient is that of the negative part, as in PyTorch.
ValueId add_leaky_relu(const AddNode& add, ValueId x, double slope) {
  const ValueId linear = add(Affine{slope, 0.0}, {x});
  const ValueId rest = add(Affine{1.0 - slope, 0.0}, {add(Relu{}, {x})});
  return add(Arithmetic{ArithmeticOperation::add}, {linear, rest});
}

ValueId add_ceil_max_pool(const AddNode& add, ValueId x, Sizes shape, const PoolOptions& o) {
  x = extended(add, x, shape, 2, rows_beyond(shape[2].fixed, o.kernel_h, o.stride_h, o.padding_h));
  x = extended(add, x, shape, 3, rows_beyond(shape[3].fixed, o.kernel_w, o.stride_w, o.padding_w));
  return add(MaxPool{o}, {x});
}

bool are_sequences(const Sizes& shape) { return shape.size() == 3; }

Sizes as_images(const Sizes& sequences) {
  return {sequences.at(0), sequences.at(1), fixed(1), sequences.at(2)};
}

Sizes as_sequences(const Sizes& images) { return {images.at(0), images.at(1), images.at(3)}; }

std::optional<Dropout> dropout_of_mask(const Sizes& mask, const Sizes& x, double probability) {
  if (mask == x) return Dropout{.probability = probability};
  const auto [end, ignored] = std::ranges::mismatch(mask, x);
  const auto drawn = static_cast<int>(end - mask.begin());
  const bool fits = mask.size() == x.size() && drawn > 0 &&
                    std::all_of(end, mask.end(), [](const Size& s) { return s == fixed(1); });
  if (!fits) return std::nullopt;
  return Dropout{.probability = probability, .drawn_axes = drawn};
}

}  // namespace troupe::graph

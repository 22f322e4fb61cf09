#pragma once
// Primitives that move elements without arithmetic. They save nothing but shapes and layouts.

#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// The axes in another order, as PyTorch's permute: axis i of y is axis axes[i] of x. Row-major;
/// shares the memory of x where that lies in the new order already.
struct Permute {
  static constexpr std::string_view name = "permute";

  std::vector<int> axes;  ///< each of x once; negative axes count from the end
  struct Saved {
    Shape x_shape;
    Layout x_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

/// Elements [start, start + count) of an axis; x itself if these are all. Keeps the layout of x,
/// except that channels which are not whole blocks of nchw16c become nhwc.
struct Slice {
  static constexpr std::string_view name = "slice";

  int axis = 0;  ///< negative axes count from the end
  std::int64_t start = 0, count = 0;
  struct Saved {
    Shape x_shape;
    Layout x_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

/// x repeated along axes of size 1 and new outer axes, as PyTorch's expand. Row-major, or x itself
/// if it has the shape.
struct Expand {
  static constexpr std::string_view name = "expand";

  Shape shape;
  struct Saved {
    Shape x_shape;
    Layout x_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

/// Any number of inputs, at least one, one behind the other along an axis; their other axes are
/// equal. In the layout of the first input or, if that is nchw16c and others cannot have it, nhwc.
struct Concatenate {
  static constexpr std::string_view name = "concatenate";

  int axis = 0;  ///< negative axes count from the end
  struct Saved {
    std::vector<Shape> shapes;
    std::vector<Layout> layouts;
  } state = {};

  Tensor forward(const Pass& pass, std::span<const Tensor> inputs);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

}  // namespace troupe::primitives

#pragma once
#include <cstdint>
#include <vector>

#include "ops/kernels.h"

namespace troupe::cpu {

/// The windows of a pooling along one axis: [begin, end) of the input for each output place,
/// clipped to the input.
struct AxisWindows {
  std::vector<std::int64_t> begin, end;
  std::int64_t input = 0;
  bool tiles = false;  ///< the windows split the input: each place is in exactly one of them
  bool pairs = false;  ///< all windows have two places

  std::int64_t count() const { return static_cast<std::int64_t>(begin.size()); }
};

/// How a pooling reads the memory of a tensor: `images` planes of h.input x w.input rows of `width`
/// channels, pooled window by window.
struct PoolWindows {
  AxisWindows h, w;
  std::int64_t images = 0;
  std::int64_t width = 1;
  Shape output;

  /// Windows of a fixed size. Throws for a window that does not fit, with the values.
  static PoolWindows sliding(const Shape& x, Layout layout, const PoolOptions& options,
                             const char* operation);
  /// Windows [floor(i H / out), ceil((i + 1) H / out)), as PyTorch's AdaptiveAvgPool2d.
  static PoolWindows adaptive(const Shape& x, Layout layout, std::int64_t out_h, std::int64_t out_w,
                              const char* operation);

  bool tiles() const { return h.tiles && w.tiles; }
  bool two_by_two() const { return h.pairs && w.pairs; }
  std::int64_t input_plane() const { return h.input * w.input * width; }
  std::int64_t output_plane() const { return h.count() * w.count() * width; }
  /// How many images a thread should get at least.
  std::int64_t grain() const;
  /// Throws unless `grad` is of the shape that this pooling puts out, in this layout and type.
  void check_output(const Tensor& grad, Layout layout, const char* operation,
                    DType dtype = DType::f32) const;
};

}  // namespace troupe::cpu

#pragma once
#include <cstdint>

namespace troupe::cpu {

/// A row of the output's gradient of a depthwise convolution, and the rows of x that its kernel
/// meets, for some channels.
struct DepthwiseRow {
  const float* grad = nullptr;
  const float* x = nullptr;  ///< of the first row of the kernel
  std::int64_t x_row = 0;    ///< from one row of the kernel to the next
  std::int64_t pixel = 0;    ///< from one pixel to the next, of both
  std::int64_t width = 0;    ///< of x
  std::int64_t first = 0;    ///< the column of x that output 0 and kernel column 0 meet
  std::int64_t stride = 1, dilation = 1;
  std::int64_t inner_begin = 0, inner_end = 0;  ///< the outputs all of whose columns lie inside
  std::int64_t end = 0;                         ///< of all outputs
};

}  // namespace troupe::cpu

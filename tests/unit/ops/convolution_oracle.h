#pragma once
// The formulas of a convolution and of a linear layer, loop by loop in double precision: what the
// tests of the fast kernels compare with. Plain row-major vectors.

#include <cmath>
#include <random>
#include <vector>

#include "ops/kernels.h"

namespace troupe::oracle {

using Values = std::vector<double>;

inline Shape output_shape(const ConvolutionOptions& o, const Shape& x) {
  return {x[0], o.out_channels,
          (x[2] + 2 * o.padding_h - o.dilation_h * (o.kernel_h - 1) - 1) / o.stride_h + 1,
          (x[3] + 2 * o.padding_w - o.dilation_w * (o.kernel_w - 1) - 1) / o.stride_w + 1};
}

/// Calls visit(x index, w index, y index) for every product of the convolution.
template <class Visit>
void for_each_product(const ConvolutionOptions& o, const Shape& x, Visit visit) {
  const Shape y = output_shape(o, x);
  const std::int64_t group_in = o.in_channels / o.groups, group_out = o.out_channels / o.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t out = 0; out < y[1]; ++out)
      for (std::int64_t h = 0; h < y[2]; ++h)
        for (std::int64_t w = 0; w < y[3]; ++w)
          for (std::int64_t in = 0; in < group_in; ++in)
            for (std::int64_t kh = 0; kh < o.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < o.kernel_w; ++kw) {
                const std::int64_t row = h * o.stride_h - o.padding_h + kh * o.dilation_h;
                const std::int64_t column = w * o.stride_w - o.padding_w + kw * o.dilation_w;
                const std::int64_t channel = out / group_out * group_in + in;
                if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
                visit(static_cast<std::size_t>(((n * x[1] + channel) * x[2] + row) * x[3] + column),
                      static_cast<std::size_t>(
                          ((out * group_in + in) * o.kernel_h + kh) * o.kernel_w + kw),
                      static_cast<std::size_t>(((n * y[1] + out) * y[2] + h) * y[3] + w));
              }
}

/// Sums a tensor of shape (N, C, H, W) over all but its channels.
inline Values channel_sums(const Values& values, const Shape& shape) {
  Values sums(static_cast<std::size_t>(shape[1]));
  const std::int64_t pixels = shape[2] * shape[3];
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i / static_cast<std::size_t>(pixels) % sums.size()] += values[i];
  return sums;
}

/// Normal numbers rounded to f32, the same for the same seed.
inline Values random_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(generator);
  return values;
}

/// Where element (n, c, h, w) of a tensor lies in memory.
inline std::int64_t offset_of(const Shape& s, Layout layout, std::int64_t n, std::int64_t c,
                              std::int64_t h, std::int64_t w) {
  switch (layout) {
    case Layout::row_major:
      return ((n * s[1] + c) * s[2] + h) * s[3] + w;
    case Layout::nhwc:
      return ((n * s[2] + h) * s[3] + w) * s[1] + c;
    case Layout::nchw16c:
      return (((n * (s[1] / 16) + c / 16) * s[2] + h) * s[3] + w) * 16 + c % 16;
  }
  return -1;
}

template <class Visit>
void for_each_element(const Shape& s, Layout layout, Visit visit) {
  std::int64_t i = 0;
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t c = 0; c < s[1]; ++c)
      for (std::int64_t h = 0; h < s[2]; ++h)
        for (std::int64_t w = 0; w < s[3]; ++w) visit(i++, offset_of(s, layout, n, c, h, w));
}

/// An f32 tensor of these values, given in row-major order.
inline Tensor to_tensor(const Shape& shape, const Values& values,
                        Layout layout = Layout::row_major) {
  Tensor tensor = Tensor::empty(shape, DType::f32, Device::cpu(), layout);
  auto* data = tensor.data<float>();
  const auto put = [&](std::int64_t i, std::int64_t at) {
    data[at] = static_cast<float>(values[static_cast<std::size_t>(i)]);
  };
  if (shape.rank() == 4)
    for_each_element(shape, layout, put);
  else
    for (std::int64_t i = 0; i < shape.element_count(); ++i) put(i, i);
  return tensor;
}

/// The values of an f32 tensor in row-major order.
inline Values to_values(const Tensor& tensor) {
  Values values(static_cast<std::size_t>(tensor.element_count()));
  const float* data = tensor.data<float>();
  const auto get = [&](std::int64_t i, std::int64_t at) {
    values[static_cast<std::size_t>(i)] = data[at];
  };
  if (tensor.rank() == 4)
    for_each_element(tensor.shape(), tensor.layout(), get);
  else
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) get(i, i);
  return values;
}

/// Root-mean-square difference over root-mean-square value; infinite for different lengths.
inline double relative_difference(const Values& found, const Values& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / (size > 0 ? size : 1));
}

}  // namespace troupe::oracle

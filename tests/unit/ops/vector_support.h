#pragma once
// What the tests of the f32 CPU kernels share: tensors by logical (N, C, H, W) index.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/kernels.h"

namespace troupe::test {

/// The kernels of this CPU.
inline const KernelTable& table() { return kernels({}, DType::f32); }

/// A shape in a layout. The sizes are odd on purpose: widths that no vector divides, planes that no
/// Philox block divides, and more than one piece of a sum.
struct Case {
  Layout layout;
  Shape shape;
};
inline void PrintTo(const Case& c, std::ostream* out) {
  *out << name_of(c.layout) << " " << to_string(c.shape);
}

inline std::vector<Case> images() {
  using enum Layout;
  return {{row_major, {4, 3, 5, 7}}, {row_major, {2, 3, 100, 101}}, {nhwc, {2, 1, 5, 7}},
          {nhwc, {2, 3, 5, 7}},      {nhwc, {3, 10, 4, 4}},         {nhwc, {2, 17, 6, 3}},
          {nhwc, {5, 64, 7, 7}},     {nhwc, {3, 17, 33, 31}},       {nhwc, {2, 16, 28, 28}},
          {nchw16c, {2, 32, 7, 7}},  {nchw16c, {3, 16, 28, 28}},    {nchw16c, {1, 48, 3, 5}},
          {row_major, {3, 20, 1, 1}}};
}
inline std::vector<Case> images_and_rows() {
  std::vector<Case> cases = images();
  cases.push_back({Layout::row_major, {5, 3}});
  cases.push_back({Layout::row_major, {700, 33}});
  cases.push_back({Layout::row_major, {1, 1}});
  return cases;
}

/// Where the element of flat logical index `e` lies in memory.
inline std::size_t place(const Shape& shape, Layout layout, std::int64_t e) {
  if (layout == Layout::row_major) return static_cast<std::size_t>(e);
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  const std::int64_t w = e % width, h = e / width % height, plane = e / (width * height);
  const std::int64_t c = plane % channels, n = plane / channels;
  const std::int64_t at =
      layout == Layout::nhwc
          ? ((n * height + h) * width + w) * channels + c
          : (((n * (channels / 16) + c / 16) * height + h) * width + w) * 16 + c % 16;
  return static_cast<std::size_t>(at);
}

/// A tensor of these values, given in logical order.
inline Tensor tensor_of(const Shape& shape, Layout layout, const std::vector<float>& values) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu(), layout);
  for (std::size_t e = 0; e < values.size(); ++e)
    result.data<float>()[place(shape, layout, static_cast<std::int64_t>(e))] = values[e];
  return result;
}
inline Tensor vector_of(const std::vector<float>& values) {
  return tensor_of({static_cast<std::int64_t>(values.size())}, Layout::row_major, values);
}

/// The values of a tensor in logical order.
inline std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
  for (std::size_t e = 0; e < values.size(); ++e)
    values[e] =
        tensor.data<float>()[place(tensor.shape(), tensor.layout(), static_cast<std::int64_t>(e))];
  return values;
}

inline std::vector<float> random_values(std::int64_t count, unsigned seed, float mean = 0.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(mean, 1.0f);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}
inline Tensor random_tensor(const Case& c, unsigned seed, float mean = 0.0f) {
  return tensor_of(c.shape, c.layout, random_values(c.shape.element_count(), seed, mean));
}

/// The channel of logical element e.
inline std::size_t channel_of(const Shape& shape, std::size_t e) {
  const auto plane = static_cast<std::size_t>(shape.rank() == 4 ? shape[2] * shape[3] : 1);
  return e / plane % static_cast<std::size_t>(shape[1]);
}

inline void expect_same_bits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_EQ(a.layout(), b.layout());
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0);
}

/// Runs f on 1 to 4 threads, expects the same bits each time and returns the tensor.
inline Tensor on_any_threads(const std::function<Tensor(const Stream&)>& f) {
  Tensor one = f(Stream{.threads = 1});
  expect_same_bits(one, f(Stream{.threads = 2}));
  expect_same_bits(one, f(Stream{.threads = 3}));
  expect_same_bits(one, f(Stream{.threads = 4}));
  return one;
}

/// Largest |a - b| / (1 + |b|).
template <class A, class B>
double distance(const std::vector<A>& a, const std::vector<B>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) /
                     (1 + std::abs(static_cast<double>(b[i])));
    if (!(d <= largest)) largest = d;  // keeps NaN
  }
  return largest;
}

}  // namespace troupe::test

#include <limits>

#include "runtime/error.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

/// Calls f(output element, h0, h1, w0, w1, first element of the plane) for each window.
template <class F>
void for_windows(const Shape& x, const Shape& y, const PoolOptions& o, const F& f) {
  std::size_t output = 0;
  for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane)
    for (std::int64_t i = 0; i < y[2]; ++i)
      for (std::int64_t j = 0; j < y[3]; ++j) {
        const std::int64_t h = i * o.stride_h - o.padding_h, w = j * o.stride_w - o.padding_w;
        f(output++, std::max<std::int64_t>(h, 0), std::min(h + o.kernel_h, x[2]),
          std::max<std::int64_t>(w, 0), std::min(w + o.kernel_w, x[3]), plane * x[2] * x[3]);
      }
}

/// The element that PyTorch's max_pool2d takes.
std::size_t largest(const std::vector<float>& x, const Shape& shape, std::int64_t h0,
                    std::int64_t h1, std::int64_t w0, std::int64_t w1, std::int64_t plane) {
  auto best = static_cast<std::size_t>(plane + h0 * shape[3] + w0);
  for (std::int64_t h = h0; h < h1; ++h)
    for (std::int64_t w = w0; w < w1; ++w) {
      const auto e = static_cast<std::size_t>(plane + h * shape[3] + w);
      if (x[e] > x[best] || std::isnan(x[e])) best = e;
    }
  return best;
}

std::vector<PoolOptions> sliding_options() {
  return {
      {},
      {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .padding_h = 1, .padding_w = 1},
      {.kernel_h = 2, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .padding_h = 1, .padding_w = 0},
      {.kernel_h = 2, .kernel_w = 2, .stride_h = 3, .stride_w = 3}};
}

class VectorPool : public testing::TestWithParam<Case> {
 protected:
  const Case& c_ = GetParam();
  bool fits(const PoolOptions& o) const {
    return c_.shape[2] + 2 * o.padding_h >= o.kernel_h &&
           c_.shape[3] + 2 * o.padding_w >= o.kernel_w;
  }
};
INSTANTIATE_TEST_SUITE_P(EveryLayout, VectorPool, testing::ValuesIn(images()));

TEST_P(VectorPool, MaxAgreesWithTheDefinition) {
  // Few distinct values, so that ties are many.
  std::vector<float> x = random_values(c_.shape.element_count(), 1);
  for (float& value : x) value = std::round(value * 2);
  const Tensor input = tensor_of(c_.shape, c_.layout, x);
  for (const PoolOptions& o : sliding_options()) {
    if (!fits(o)) continue;
    const Tensor y = on_any_threads([&](const Stream& s) { return table().max_pool(s, input, o); });
    const Tensor grad = random_tensor({c_.layout, y.shape()}, 2);
    const Tensor dx = on_any_threads(
        [&](const Stream& s) { return table().max_pool_backward(s, grad, input, o); });
    const std::vector<float> gradient = values_of(grad);
    std::vector<float> expected_y(gradient.size()), expected_dx(x.size());
    for_windows(c_.shape, y.shape(), o, [&](std::size_t output, auto... window) {
      const std::size_t best = largest(x, c_.shape, window...);
      expected_y[output] = x[best];
      expected_dx[best] += gradient[output];
    });
    ASSERT_EQ(values_of(y), expected_y);
    ASSERT_EQ(values_of(dx), expected_dx);
  }
}

TEST_P(VectorPool, AverageAgreesWithTheDefinition) {
  const Tensor input = random_tensor(c_, 1);
  const std::vector<float> x = values_of(input);
  for (const PoolOptions& o : sliding_options()) {
    if (!fits(o)) continue;
    const Tensor y =
        on_any_threads([&](const Stream& s) { return table().average_pool(s, input, o); });
    const Tensor grad = random_tensor({c_.layout, y.shape()}, 2);
    const Tensor dx = on_any_threads(
        [&](const Stream& s) { return table().average_pool_backward(s, grad, c_.shape, o); });
    const std::vector<float> gradient = values_of(grad);
    std::vector<double> expected_y(gradient.size()), expected_dx(x.size());
    for_windows(c_.shape, y.shape(), o,
                [&](std::size_t output, std::int64_t h0, std::int64_t h1, std::int64_t w0,
                    std::int64_t w1, std::int64_t plane) {
                  const auto area = static_cast<double>(o.kernel_h * o.kernel_w);
                  for (std::int64_t h = h0; h < h1; ++h)
                    for (std::int64_t w = w0; w < w1; ++w) {
                      const auto e = static_cast<std::size_t>(plane + h * c_.shape[3] + w);
                      expected_y[output] += x[e] / area;
                      expected_dx[e] += gradient[output] / area;
                    }
                });
    EXPECT_LT(distance(values_of(y), expected_y), 1e-6);
    EXPECT_LT(distance(values_of(dx), expected_dx), 1e-6);
  }
}

TEST_P(VectorPool, AdaptiveAverageAgreesWithTheDefinition) {
  const Tensor input = random_tensor(c_, 1);
  const std::vector<float> x = values_of(input);
  const std::int64_t height = c_.shape[2], width = c_.shape[3];
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes{
      {1, 1}, {2, 3}, {height, width}, {9, 8}};
  for (const auto& size : sizes) {
    const std::int64_t out_h = size.first, out_w = size.second;
    const Tensor y = on_any_threads(
        [&](const Stream& s) { return table().adaptive_average_pool(s, input, out_h, out_w); });
    ASSERT_EQ(y.shape(), (Shape{c_.shape[0], c_.shape[1], out_h, out_w}));
    const Tensor grad = random_tensor({c_.layout, y.shape()}, 2);
    const Tensor dx = on_any_threads(
        [&](const Stream& s) { return table().adaptive_average_pool_backward(s, grad, c_.shape); });
    const std::vector<float> gradient = values_of(grad);
    std::vector<double> expected_y(gradient.size()), expected_dx(x.size());
    for (std::size_t output = 0; output < gradient.size(); ++output) {
      const auto o = static_cast<std::int64_t>(output);
      const std::int64_t j = o % out_w, i = o / out_w % out_h;
      const std::int64_t plane = o / (out_w * out_h) * height * width;
      const std::int64_t h0 = i * height / out_h, h1 = ((i + 1) * height + out_h - 1) / out_h;
      const std::int64_t w0 = j * width / out_w, w1 = ((j + 1) * width + out_w - 1) / out_w;
      const auto area = static_cast<double>((h1 - h0) * (w1 - w0));
      for (std::int64_t h = h0; h < h1; ++h)
        for (std::int64_t w = w0; w < w1; ++w) {
          const auto e = static_cast<std::size_t>(plane + h * width + w);
          expected_y[output] += x[e] / area;
          expected_dx[e] += gradient[output] / area;
        }
    }
    EXPECT_LT(distance(values_of(y), expected_y), 1e-6);
    EXPECT_LT(distance(values_of(dx), expected_dx), 1e-6);
  }
}

TEST(VectorPoolValues, NotANumberWinsAWindowAndGetsItsGradient) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor_of({1, 1, 2, 2}, Layout::row_major, {7.0f, nan, 1.0f, 9.0f});
  EXPECT_TRUE(std::isnan(table().max_pool({}, x, {}).data<float>()[0]));
  const Tensor grad = tensor_of({1, 1, 1, 1}, Layout::row_major, {3.0f});
  EXPECT_EQ(values_of(table().max_pool_backward({}, grad, x, {})),
            (std::vector<float>{0, 3.0f, 0, 0}));
}

TEST(VectorPoolValues, AWindowOfMinusInfinityGivesItsGradientToItsFirstElement) {
  const float low = -std::numeric_limits<float>::infinity();
  const Tensor x = tensor_of({1, 1, 2, 2}, Layout::row_major, {low, low, low, low});
  const Tensor grad = tensor_of({1, 1, 1, 1}, Layout::row_major, {3.0f});
  EXPECT_EQ(values_of(table().max_pool_backward({}, grad, x, {})),
            (std::vector<float>{3.0f, 0, 0, 0}));
}

TEST(VectorPoolErrors, NamesTheWindowThatDoesNotFit) {
  const Tensor x = Tensor::zeros({1, 3, 4, 4});
  try {
    table().max_pool({}, x, {.kernel_h = 5, .kernel_w = 2});
    FAIL() << "the window is larger than the input";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("window of 5"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("[1, 3, 4, 4]"), std::string::npos) << error.message();
  }
  EXPECT_THROW(table().max_pool({}, x, {.stride_h = 0}), Error);
  EXPECT_THROW(table().max_pool({}, x, {.padding_w = 2}), Error);
  EXPECT_THROW(table().max_pool({}, Tensor::zeros({3, 4}), {}), Error);
  EXPECT_THROW(table().max_pool_backward({}, Tensor::zeros({1, 3, 2, 3}), x, {}), Error);
  EXPECT_THROW(table().average_pool_backward({}, Tensor::zeros({1, 3, 3, 2}), x.shape(), {}),
               Error);
  EXPECT_THROW(table().adaptive_average_pool({}, x, 0, 1), Error);
  EXPECT_THROW(table().adaptive_average_pool_backward({}, Tensor::zeros({1, 2, 1, 1}), x.shape()),
               Error);
}

}  // namespace
}  // namespace troupe

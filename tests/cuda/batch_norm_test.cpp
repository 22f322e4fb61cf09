#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "norm_kernels.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

using reference::in_layout;

/// Relative to the sums' length in f32.
double bound_of(DType dtype) { return dtype == DType::f64 ? 1e-12 : 2e-5; }

struct Case {
  Shape shape;
  NormEpilogue epilogue = {};
  bool batch_moments = true;
};

void compare(const EmulatedStream& stream, const Case& c, Layout layout, DType dtype) {
  SCOPED_TRACE(to_string(c.shape) + " " + std::string(name_of(layout)) + " " +
               std::string(name_of(dtype)));
  const auto on = [&](const Tensor& t) {
    return t.defined() ? on_device(stream.get(), t, dtype) : Tensor();
  };
  const KernelTable& cuda = kernels(stream.get().device, dtype);
  const Tensor x = in_layout(random_tensor(c.shape, 1), layout);
  const Tensor grad = in_layout(random_tensor(c.shape, 2), layout);
  const Tensor weight = random_tensor({c.shape[1]}, 3), bias = random_tensor({c.shape[1]}, 4);
  NormEpilogue there = c.epilogue, here = c.epilogue;
  if (c.epilogue.residual.defined()) {
    here.residual = in_layout(c.epilogue.residual, layout);
    there.residual = on(here.residual);
  }
  ChannelMoments moments = moments_by(reference::channel_moments, {}, x);
  const ChannelMoments found = moments_by(cuda.channel_moments, stream.get(), on(x));
  expect_near(stream, found.mean, moments.mean, bound_of(dtype));
  expect_near(stream, found.variance, moments.variance, bound_of(dtype));
  if (x.element_count() == 0) moments = {weight, Tensor::zeros(weight.shape(), DType::f64)};
  const ChannelMoments given{on(moments.mean), on(moments.variance)};
  const Tensor z = reference::batch_norm({}, x, weight, bias, moments, 1e-5, here);
  const Tensor found_z =
      cuda.batch_norm(stream.get(), on(x), on(weight), on(bias), given, 1e-5, there);
  expect_near(stream, found_z, z, bound_of(dtype));
  const NormGradients wanted = gradients_by(reference::batch_norm_backward, {}, grad, x, z, weight,
                                            bias, moments, 1e-5, here, c.batch_moments);
  const NormGradients gradients =
      gradients_by(cuda.batch_norm_backward, stream.get(), on(grad), on(x), found_z, on(weight),
                   on(bias), given, 1e-5, there, c.batch_moments);
  expect_near(stream, gradients.x, wanted.x, bound_of(dtype));
  expect_near(stream, gradients.weight, wanted.weight, 4 * bound_of(dtype));
  expect_near(stream, gradients.bias, wanted.bias, 4 * bound_of(dtype));
  ASSERT_EQ(gradients.residual.defined(), wanted.residual.defined());
  if (wanted.residual.defined())
    expect_near(stream, gradients.residual, wanted.residual, bound_of(dtype));
}

void compare(const EmulatedStream& stream, const Case& c) {
  for (const Layout layout : {Layout::row_major, Layout::nhwc})
    for (const DType dtype : {DType::f32, DType::f64})
      if (c.shape.rank() == 4 || layout == Layout::row_major) compare(stream, c, layout, dtype);
}

TEST(CudaBatchNorm, TakesPlanesAndChannelsOfAnyWidth) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{1, 3, 1, 1}, Shape{9, 5, 3, 3}, Shape{2, 8, 4, 6}, Shape{300, 2},
                             Shape{3, 140}, Shape{3, 2, 17, 31}})
    compare(stream, {.shape = shape, .epilogue = {.relu = true}});
}

TEST(CudaBatchNorm, AddsUpThePartsOfManySamples) {
  EmulatedStream stream;
  compare(stream, {.shape = {70, 2, 16, 16}}, Layout::row_major, DType::f32);
  compare(stream, {.shape = {70, 4, 16, 16}}, Layout::nhwc, DType::f32);
  compare(stream, {.shape = {9000, 2}}, Layout::row_major, DType::f32);
}

TEST(CudaBatchNorm, HasTheWholeEpilogue) {
  EmulatedStream stream;
  const Shape shape{3, 4, 3, 6};
  const Tensor residual = random_tensor(shape, 5);
  const RandomKey random{.seed = 0x123456789abcull, .step = 3, .micro_batch = 4, .operation = 5};
  compare(stream, {shape, {.relu = true, .dropout = 0.4f, .random = random}});
  compare(stream, {{5, 3}, {.relu = true, .dropout = 0.4f, .random = random}});
  compare(stream, {{3, 4, 2, 6}, {.relu = true, .dropout = 0.4f, .random = random}});
  compare(stream, {{2, 3, 5, 3}, {.relu = true, .dropout = 0.4f, .random = random}});
  compare(stream, {shape, {.relu = true, .residual = residual}});
  compare(stream, {shape, {.relu = true, .residual = residual, .residual_first = true}});
  compare(stream, {shape, {.residual = residual}});
  compare(stream, {shape, {.relu = true}, false});
}

TEST(CudaBatchNorm, IsExactForALargeMeanAndOutlyingFirstValues) {
  EmulatedStream stream;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  for (const double mean : {0.0, 1e4}) {
    Tensor x = random_tensor({20, 3, 4, 5}, 6);
    for (double& value : x.elements<double>()) value = static_cast<float>(value + mean);
    if (mean == 0)
      for (std::int64_t c = 0; c < 3; ++c) x.data<double>()[c * 20] = 100.0;
    for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
      const Tensor placed = in_layout(x, layout);
      const ChannelMoments wanted = moments_by(reference::channel_moments, {}, placed);
      const ChannelMoments found = moments_by(cuda.channel_moments, stream.get(),
                                              on_device(stream.get(), placed, DType::f32));
      expect_near(stream, found.mean, wanted.mean, 1e-6);
      expect_near(stream, found.variance, wanted.variance, 1e-6);
    }
  }
}

// A layer in training: the places it has for results, and the norm that the moments keep.
TEST(CudaBatchNorm, WritesWhereItIsToldAndComputesTheNormOnce) {
  EmulatedStream stream;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, DType::f32); };
  const auto empty = [&] { return Tensor::empty({3}, DType::f32, stream.get().device); };
  const Tensor x = random_tensor({4, 3, 5, 3}, 1), grad = random_tensor({4, 3, 5, 3}, 2);
  const Tensor weight = random_tensor({3}, 3), bias = random_tensor({3}, 4);
  Tensor mean = empty(), variance = empty(), weight_gradient = empty(), bias_gradient = empty();
  const ChannelMoments moments =
      cuda.channel_moments(stream.get(), on(x), on(weight), on(bias), 1e-5, mean, variance);
  const ChannelMoments wanted = moments_by(reference::channel_moments, {}, x);
  expect_near(stream, mean, wanted.mean, 1e-6);
  Tensor unbiased = wanted.variance.clone();
  for (double& value : unbiased.elements<double>()) value *= 60.0 / 59.0;
  expect_near(stream, variance, unbiased, 1e-6);
  ASSERT_TRUE(moments.norm.defined());
  const NormEpilogue epilogue{.relu = true};
  const ChannelMoments without{moments.mean, moments.variance};
  const auto z_of = [&](const ChannelMoments& m) {
    return cuda.batch_norm(stream.get(), on(x), on(weight), on(bias), m, 1e-5, epilogue);
  };
  const Tensor z = z_of(moments);
  const auto doubles = [&](const Tensor& t) { return cast(on_cpu(stream.get(), t), DType::f64); };
  expect_near(stream, z, doubles(z_of(without)), 0.0);
  const NormGradients found =
      cuda.batch_norm_backward(stream.get(), on(grad), on(x), z, on(weight), on(bias), moments,
                               1e-5, epilogue, true, weight_gradient, bias_gradient);
  EXPECT_EQ(found.weight.raw(), weight_gradient.raw());
  EXPECT_EQ(found.bias.raw(), bias_gradient.raw());
  const NormGradients made = gradients_by(cuda.batch_norm_backward, stream.get(), on(grad), on(x),
                                          z, on(weight), on(bias), without, 1e-5, epilogue, true);
  for (const auto member : {&NormGradients::x, &NormGradients::weight, &NormGradients::bias})
    expect_near(stream, found.*member, doubles(made.*member), 0.0);
}

TEST(CudaBatchNorm, KeepsNaNsInTheirChannels) {
  EmulatedStream stream;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  Tensor x = random_tensor({2, 3, 2, 2}, 7);
  x.data<double>()[4] = NAN;
  const ChannelMoments wanted = moments_by(reference::channel_moments, {}, x);
  const ChannelMoments found =
      moments_by(cuda.channel_moments, stream.get(), on_device(stream.get(), x, DType::f32));
  expect_near(stream, found.variance, wanted.variance, 1e-6);
  const Tensor mean = on_cpu(stream.get(), found.mean);
  EXPECT_FALSE(std::isnan(mean.data<float>()[0]));
  EXPECT_TRUE(std::isnan(mean.data<float>()[1]));
}

TEST(CudaBatchNorm, TakesEmptyTensorsAndViewsAtNoBoundary) {
  EmulatedStream stream;
  compare(stream, {.shape = {0, 3, 2, 2}});
  compare(stream, {.shape = {2, 0}});
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const Tensor x = random_tensor({5, 1, 3, 3}, 8);
  const Tensor part = on_device(stream.get(), x, DType::f32).narrow(1, 4);
  expect_near(stream, moments_by(cuda.channel_moments, stream.get(), part).variance,
              moments_by(reference::channel_moments, {}, x.narrow(1, 4).clone()).variance, 1e-6);
}

TEST(CudaBatchNorm, RefusesWhatItDoesNotCompute) {
  EmulatedStream stream;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const auto on = [&](const Shape& shape, Layout layout = Layout::row_major) {
    return Tensor::empty(shape, DType::f32, stream.get().device, layout);
  };
  EXPECT_THROW(moments_by(cuda.channel_moments, stream.get(), on({2, 16, 2, 2}, Layout::nchw16c)),
               Error);
  EXPECT_THROW(moments_by(cuda.channel_moments, stream.get(), on({2, 3, 4})), Error);
  Tensor short_vector = on({2}), none;
  EXPECT_THROW(cuda.channel_moments(stream.get(), on({2, 3}), {}, {}, 0.0, short_vector, none),
               Error);
  const ChannelMoments moments{on({3}), on({3})};
  EXPECT_THROW(cuda.batch_norm_backward(stream.get(), on({2, 3}), on({2, 3}), {}, on({3}), on({3}),
                                        moments, 1e-5, {}, true, none, short_vector),
               Error);
  EXPECT_THROW(cuda.batch_norm(stream.get(), on({2, 3}), on({2}), on({3}), moments, 1e-5, {}),
               Error);
  EXPECT_THROW(
      cuda.batch_norm(stream.get(), on({2, 3}), on({3}), on({3}), moments, 1e-5, {.dropout = 0.5f}),
      Error);
}

}  // namespace
}  // namespace troupe::testing

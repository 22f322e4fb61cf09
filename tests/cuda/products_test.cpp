// Convolutions and linear layers whose factors are rounded (Stream::products), against the
// reference with factors that were rounded before.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "emulated.h"
#include "no_cudnn.h"
#include "ops/cuda/convert.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

using reference::in_layout;

constexpr DType rounded_types[] = {DType::bf16, DType::f16};

/// Of a result that is rounded, once more when a bias is added; in f32 only the order of sums
/// differs.
double bound_of(DType products) {
  return products == DType::bf16 ? 1.0 / 256 : products == DType::f16 ? 1.0 / 1024 : 2e-6;
}

Stream multiplying(const EmulatedStream& stream, DType products) {
  Stream changed = stream.get();
  changed.products = products;
  return changed;
}

Tensor rounded(const Tensor& x, DType dtype) { return cast(cast(x, dtype), DType::f64); }
Tensor random_f32(const Shape& shape, std::uint64_t seed) {
  return rounded(random_tensor(shape, seed), DType::f32);
}

/// The results of a layer's three passes.
struct Results {
  Tensor y, x_grad, weight_grad, bias_grad;
};
struct Given {
  Tensor x, weight, bias, grad;
};

Results results_of(const Stream& stream, LayerKernel& kernel, const Given& given,
                   const Tensor& unrounded_grad) {
  kernel.use_weights(stream, given.weight, given.bias, 1);
  Results found;
  const auto like = [&](const Tensor& t) {
    return t.defined() ? Tensor::empty(t.shape(), t.dtype(), stream.device) : Tensor();
  };
  found.y = kernel.forward(stream, given.x);
  found.x_grad = kernel.input_gradient(stream, given.grad, given.x.shape(), given.x.layout());
  found.weight_grad = like(given.weight);
  found.bias_grad = like(given.bias);
  Tensor none;
  kernel.weight_gradient(stream, given.x, given.grad, found.weight_grad, none);
  Tensor unused = like(given.weight);
  kernel.weight_gradient(stream, given.x, unrounded_grad, unused, found.bias_grad);
  return found;
}

/// Compares a layer with the reference's; `make` makes it from a table of kernels.
template <class Make>
void compare(const EmulatedStream& stream, DType products, const Given& given, Make make,
             bool rounds_bias = false) {
  const double largest = bound_of(products);
  const auto on = [&](const Tensor& t) {
    return t.defined() ? on_device(stream.get(), t, DType::f32) : Tensor();
  };
  const Given there{on(given.x), on(given.weight), on(given.bias), on(given.grad)};
  const auto kernel = make(kernels(stream.get().device, DType::f32));
  const Results found = results_of(multiplying(stream, products), *kernel, there, there.grad);
  KernelTable table = kernels(Device::cpu(), DType::f64);
  table.convolution = reference::convolution;
  table.linear = reference::linear;
  Given factors{rounded(given.x, products), rounded(given.weight, products), given.bias,
                rounded(given.grad, products)};
  if (rounds_bias && given.bias.defined()) factors.bias = rounded(given.bias, products);
  const Results wanted = results_of({}, *make(table), factors, given.grad);
  EXPECT_EQ(found.y.dtype(), products);
  EXPECT_EQ(found.x_grad.dtype(), products);
  expect_near(stream, on_cpu(stream.get(), found.y), in_layout(wanted.y, found.y.layout()),
              largest);
  expect_near(stream, found.x_grad, wanted.x_grad, largest);
  expect_near(stream, found.weight_grad, wanted.weight_grad, largest);
  if (given.bias.defined()) expect_near(stream, found.bias_grad, wanted.bias_grad, 2e-6);
}

struct Case {
  Shape x;
  ConvolutionOptions options;
};

const Case cases[] = {
    {{2, 3, 7, 5}, {.in_channels = 3, .out_channels = 5, .padding_h = 1, .padding_w = 1}},
    {{3, 4, 9, 8},
     {.in_channels = 4,
      .out_channels = 6,
      .stride_h = 2,
      .stride_w = 3,
      .padding_h = 1,
      .padding_w = 2,
      .groups = 2,
      .bias = false}},
    {{1, 6, 11, 7},
     {.in_channels = 6,
      .out_channels = 6,
      .kernel_h = 3,
      .kernel_w = 2,
      .padding_h = 2,
      .dilation_h = 2,
      .dilation_w = 3,
      .groups = 6}},
    {{5, 1, 4, 4}, {.in_channels = 1, .out_channels = 1, .kernel_h = 1, .kernel_w = 1}},
};

Given given_of(const Case& c, Layout layout) {
  const ConvolutionOptions& o = c.options;
  const Shape y{c.x[0], o.out_channels, (c.x[2] + 2 * o.padding_h - reach_h(o)) / o.stride_h + 1,
                (c.x[3] + 2 * o.padding_w - reach_w(o)) / o.stride_w + 1};
  return {in_layout(random_f32(c.x, 1), layout), random_f32(weight_shape(o), 2),
          o.bias ? random_f32({o.out_channels}, 3) : Tensor(), in_layout(random_f32(y, 4), layout)};
}

void compare_convolutions(const EmulatedStream& stream, DType products) {
  for (const Case& c : cases)
    for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
      SCOPED_TRACE(to_string(c.x) + " " + std::string(name_of(layout)) + " " +
                   std::string(name_of(products)));
      compare(stream, products, given_of(c, layout),
              [&](const KernelTable& table) { return table.convolution(c.options); });
    }
}

TEST(CudaProducts, OfConvolutionsAreThoseOfRoundedFactors) {
  EmulatedStream stream;
  for (const DType products : rounded_types) compare_convolutions(stream, products);
}

TEST(CudaProducts, OfPlannedConvolutionsAreThoseOfRoundedFactors) {
  EmulatedStream stream;
  for (const DType products : {DType::f32, DType::bf16, DType::f16}) {
    const PlannedConvolutions plans(products != DType::f16);  // f16: the bias is added after
    compare_convolutions(stream, products);
    ASSERT_FALSE(plans.works().empty());
    for (const ConvolutionWork& work : plans.works()) EXPECT_EQ(work.dtype, products);
  }
}

TEST(CudaProducts, AskForPlansOfAFixedOrderUnlessTheStreamNeedsNone) {
  const EmulatedStream own;
  for (const bool deterministic : {true, false}) {
    const PlannedConvolutions plans(true);
    Stream stream = own.get();
    stream.deterministic = deterministic;
    const Given given = given_of(cases[0], Layout::row_major);
    const auto on = [&](const Tensor& t) { return on_device(stream, t, DType::f32); };
    const Given there{on(given.x), on(given.weight), on(given.bias), on(given.grad)};
    const auto kernel = kernels(stream.device, DType::f32).convolution(cases[0].options);
    results_of(stream, *kernel, there, there.grad);
    ASSERT_EQ(plans.works().size(), 3u);
    for (const ConvolutionWork& work : plans.works()) EXPECT_EQ(work.deterministic, deterministic);
  }
}

TEST(CudaProducts, OfAPartOfABatchThatBeginsAnywhereAreThoseOfItsCopy) {
  EmulatedStream stream;
  const PlannedConvolutions plans(true);
  const Given whole = given_of({{3, 3, 7, 5}, cases[0].options}, Layout::row_major);
  const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, DType::f32); };
  const Tensor weight = on(whole.weight), bias = on(whole.bias);
  const Given part{on(whole.x).narrow(1, 2), weight, bias, on(whole.grad).narrow(1, 2)};
  const Given copy{on(whole.x.narrow(1, 2)), weight, bias, on(whole.grad.narrow(1, 2))};
  ASSERT_NE(reinterpret_cast<std::uintptr_t>(part.x.raw()) % 16, 0u);
  const auto results = [&](const Given& given) {
    const auto kernel = kernels(stream.get().device, DType::f32).convolution(cases[0].options);
    return results_of(stream.get(), *kernel, given, given.grad);
  };
  const Results found = results(part), wanted = results(copy);
  EXPECT_FALSE(plans.works().empty());
  for (const auto member :
       {&Results::y, &Results::x_grad, &Results::weight_grad, &Results::bias_grad})
    expect_near(stream, found.*member, cast(on_cpu(stream.get(), wanted.*member), DType::f64), 0.0);
}

TEST(CudaProducts, OfSequencesAreThoseOfImagesOfOneRow) {
  EmulatedStream stream;
  const Case c{{2, 4, 1, 9},
               {.in_channels = 4, .out_channels = 6, .kernel_h = 1, .kernel_w = 3, .padding_w = 1}};
  const Given given = given_of(c, Layout::row_major);
  const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, DType::f32); };
  const Given images{on(given.x), on(given.weight), on(given.bias), on(given.grad)};
  Given sequences = images;
  sequences.weight = images.weight.reshape({6, 4, 3});
  for (const DType products : {DType::f32, DType::bf16, DType::f16}) {
    const PlannedConvolutions plans;
    const auto results = [&](const Given& of) {
      const auto kernel = kernels(stream.get().device, DType::f32).convolution(c.options);
      return results_of(multiplying(stream, products), *kernel, of, of.grad);
    };
    Results found = results(sequences), wanted = results(images);
    ASSERT_EQ(found.weight_grad.shape(), sequences.weight.shape());
    found.weight_grad = found.weight_grad.reshape(images.weight.shape());
    for (const auto member :
         {&Results::y, &Results::x_grad, &Results::weight_grad, &Results::bias_grad})
      expect_near(stream, found.*member, on_cpu(stream.get(), wanted.*member), 0.0);
  }
}

TEST(CudaProducts, OfConvolutionsOnTensorCoresAreInNhwc) {
  EmulatedStream stream;
  const Case& c = cases[0];
  const auto layouts = [&](const Stream& changed, Layout layout) {
    const PlannedConvolutions plans;
    const Given given = given_of(c, layout);
    const auto kernel = kernels(changed.device, DType::f32).convolution(c.options);
    kernel->use_weights(changed, on_device(changed, given.weight, DType::f32),
                        on_device(changed, given.bias, DType::f32), 1);
    const Tensor x = on_device(changed, given.x, DType::f32);
    const Tensor y = kernel->forward(changed, x);
    EXPECT_EQ(y.dtype(), changed.products);
    EXPECT_EQ(plans.works().at(0).layout, y.layout());
    EXPECT_EQ(plans.works().at(0).tf32, changed.conv_tf32 && changed.products == DType::f32);
    return y.layout();
  };
  Stream tf32 = stream.get(), of_matrices = stream.get();
  tf32.conv_tf32 = true;
  of_matrices.matmul_tf32 = true;
  Stream both = multiplying(stream, DType::bf16);
  both.conv_tf32 = true;
  for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
    EXPECT_EQ(layouts(stream.get(), layout), layout);
    EXPECT_EQ(layouts(of_matrices, layout), layout);
    EXPECT_EQ(layouts(tf32, layout), Layout::nhwc);
    EXPECT_EQ(layouts(both, layout), Layout::nhwc);
    EXPECT_EQ(layouts(multiplying(stream, DType::f16), layout), Layout::nhwc);
  }
}

// f64 is neither rounded nor moved.
TEST(CudaProducts, OfDoublesStayAsTheyAre) {
  EmulatedStream stream;
  Stream mixed = multiplying(stream, DType::bf16);
  mixed.conv_tf32 = true;
  const Case& c = cases[0];
  const Given given = given_of(c, Layout::row_major);
  const auto forward = [&](const Stream& changed) {
    const auto kernel = kernels(changed.device, DType::f64).convolution(c.options);
    kernel->use_weights(changed, on_device(changed, given.weight), on_device(changed, given.bias),
                        1);
    return on_cpu(changed, kernel->forward(changed, on_device(changed, given.x)));
  };
  expect_near(stream, forward(mixed), forward(stream.get()), 0.0);
}

TEST(CudaProducts, OfAWeightAreThoseOfItsVersion) {
  EmulatedStream stream;
  const Stream mixed = multiplying(stream, DType::bf16);
  const auto kernel =
      kernels(mixed.device, DType::f32).linear({.in_features = 3, .out_features = 2});
  const Tensor x = on_device(mixed, random_tensor({4, 3}, 1), DType::f32);
  const auto forward = [&](double factor, std::uint64_t version) {
    Tensor weight = Tensor::zeros({2, 3}, DType::f64);
    reference::fill({}, factor, weight);
    kernel->use_weights(mixed, on_device(mixed, weight, DType::f32), {}, version);
    return cast(on_cpu(mixed, kernel->forward(mixed, x)), DType::f64);
  };
  const Tensor one = forward(1, 1), same = forward(2, 1), two = forward(2, 2);
  for (std::int64_t e = 0; e < one.element_count(); ++e) {
    EXPECT_EQ(same.data<double>()[e], one.data<double>()[e]);
    EXPECT_EQ(two.data<double>()[e], 2 * one.data<double>()[e]);
  }
}

TEST(CudaProducts, OfLinearLayersAreThoseOfRoundedFactors) {
  EmulatedStream stream;
  for (const DType products : rounded_types)
    for (const auto& [rows, in, out, bias] :
         {std::tuple{1, 1, 1, true}, {67, 33, 5, true}, {3, 130, 70, false}, {8, 16, 64, true}}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << in << " to " << out);
      const LinearOptions options{.in_features = in, .out_features = out, .bias = bias};
      const Given given{random_f32({rows, in}, 1), random_f32({out, in}, 2),
                        bias ? random_f32({out}, 3) : Tensor(), random_f32({rows, out}, 4)};
      compare(
          stream, products, given, [&](const KernelTable& table) { return table.linear(options); },
          true);
    }
}

TEST(CudaConvert, RoundsToNearestAndTiesToEven) {
  EmulatedStream stream;
  std::vector<float> values{0.0f,
                            -0.0f,
                            1.0f,
                            65504.0f,
                            65519.9f,
                            65520.0f,
                            1e30f,
                            -1e30f,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min(),
                            5.96e-8f,
                            2.98e-8f,
                            6.1e-5f,
                            INFINITY,
                            -INFINITY,
                            NAN};
  for (std::uint32_t bits = 0x3f80'0000; bits < 0x3f82'0000; bits += 0x0800) {  // around ties
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>(bits + 1));
  }
  Tensor x = Tensor::empty({std::ssize(values)}, DType::f32, Device::cpu());
  std::copy(values.begin(), values.end(), x.data<float>());
  const Tensor there = on_device(stream.get(), x);
  for (const DType dtype : rounded_types) {
    Tensor narrow = Tensor::empty(x.shape(), dtype, stream.get().device);
    cuda::convert(stream.get(), there, narrow);
    Tensor wide = Tensor::empty(x.shape(), DType::f32, stream.get().device);
    cuda::convert(stream.get(), narrow, wide);
    const Tensor found = on_cpu(stream.get(), wide), wanted = cast(cast(x, dtype), DType::f32);
    for (std::int64_t e = 0; e < x.element_count(); ++e) {
      const float a = found.data<float>()[e], b = wanted.data<float>()[e];
      EXPECT_TRUE(std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b))
          << name_of(dtype) << " of " << x.data<float>()[e] << ": " << a << ", not " << b;
    }
  }
}

TEST(CudaConvert, TakesTensorsThatBeginAnywhere) {
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), random_tensor({1031}, 1), DType::f32);
  for (const DType dtype : rounded_types) {
    Tensor narrow = Tensor::empty({1031}, dtype, stream.get().device);
    Tensor part = narrow.narrow(3, 1021);
    cuda::convert(stream.get(), x.narrow(5, 1021), part);
    Tensor wide = Tensor::empty({1021}, DType::f32, stream.get().device);
    cuda::convert(stream.get(), part, wide);
    const Tensor wanted =
        cast(cast(cast(random_tensor({1031}, 1), DType::f32).narrow(5, 1021), dtype), DType::f64);
    expect_near(stream, wide, wanted, 0.0);
  }
}

TEST(CudaConvert, RefusesToRoundTwice) {
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), random_tensor({3}, 1));
  Tensor y = Tensor::empty({3}, DType::bf16, stream.get().device);
  try {
    cuda::convert(stream.get(), x, y);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace troupe::testing

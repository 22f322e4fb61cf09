// cuBLASLt and cuDNN behind ops/cuda/blas.h and dnn.h: they compute what the reference does, or
// decline and do nothing. The emulator has no cuDNN.

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "emulated.h"
#include "ops/cuda/blas.h"
#include "ops/cuda/dnn.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

#ifdef TROUPE_CUDA_EMULATOR
constexpr bool has_cudnn = false;
#else
constexpr bool has_cudnn = true;
#endif

std::string bits(const Stream& stream, const Tensor& tensor) {
  const Tensor here = on_cpu(stream, tensor);
  return {reinterpret_cast<const char*>(here.raw()), here.bytes()};
}

// --- cuBLASLt ------------------------------------------------------------------------------------

/// What plain loops compute, added to `y`.
Tensor product_of(const cuda::Product& p, const Tensor& a, const Tensor& b, const Tensor& bias,
                  const Tensor& y) {
  Tensor result = p.adds ? y.clone() : Tensor::zeros(y.shape(), DType::f64);
  double* to = result.data<double>();
  for (std::int64_t n = 0; n < p.batches; ++n)
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t c = 0; c < p.columns; ++c, ++to) {
        for (std::int64_t k = 0; k < p.depth; ++k)
          *to +=
              a.data<double>()[n * p.a_step + (p.transposed_a ? k * p.rows + r : r * p.depth + k)] *
              b.data<double>()[n * p.b_step +
                               (p.transposed_b ? c * p.depth + k : k * p.columns + c)];
        if (bias.defined()) *to += bias.data<double>()[c];
      }
  return result;
}

void compare(const EmulatedStream& stream, const cuda::Product& p, bool biased,
             const cuda::ProductTypes& types) {
  const DType dtype = types.factors;
  SCOPED_TRACE(::testing::Message()
               << p.rows << "x" << p.depth << "x" << p.columns << " " << p.transposed_a
               << p.transposed_b << " " << p.batches << name_of(dtype) << " to "
               << name_of(types.results) << (biased ? " bias" : ""));
  const auto random = [](const Shape& shape, DType as, std::uint64_t seed) {
    return cast(cast(random_tensor(shape, seed), as), DType::f64);
  };
  const Tensor a = random({p.batches, p.rows * p.depth}, dtype, 1);
  const Tensor b = random({p.batches, p.depth * p.columns}, dtype, 2);
  const Tensor bias = biased ? random({p.columns}, types.results, 3) : Tensor();
  const Tensor before = random({p.batches, p.rows, p.columns}, types.results, 4);
  const auto there = [&](const Tensor& tensor, DType as) {
    return tensor.defined() ? on_device(stream.get(), cast(tensor, as)) : Tensor();
  };
  const Tensor x = there(a, dtype), w = there(b, dtype), added = there(bias, types.results);
  const Tensor y = there(before, types.results), z = there(before, types.results);
  const auto multiply = [&](const Tensor& to) {
    return cuda::multiply_by_library(stream.get(), p, types, x.raw(), w.raw(), added.raw(),
                                     to.raw());
  };
  if (!multiply(y)) {
    EXPECT_NE(dtype, DType::f32);
    EXPECT_EQ(bits(stream.get(), y), bits(stream.get(), z));
    return;
  }
  const double bound = types.results == DType::bf16  ? 0x1p-7
                       : types.results == DType::f16 ? 0x1p-10
                       : dtype == DType::f64         ? 1e-12
                                                     : 1e-4;
  expect_near(stream, y, product_of(p, a, b, bias, before), bound);
  ASSERT_TRUE(multiply(z));
  EXPECT_EQ(bits(stream.get(), y), bits(stream.get(), z));
}

TEST(ContractProducts, AreTheReferencesOrDeclined) {
  const EmulatedStream stream;
  for (const cuda::ProductTypes types : {cuda::ProductTypes{DType::f32, DType::f32},
                                         {DType::f64, DType::f64},
                                         {DType::bf16, DType::f32},
                                         {DType::bf16, DType::bf16},
                                         {DType::f16, DType::f16}}) {
    for (const bool biased : {false, true})
      for (const bool transposed : {false, true}) {
        compare(stream, {.rows = 64, .depth = 129, .columns = 40, .transposed_b = transposed},
                biased, types);
        compare(stream, {.rows = 7, .depth = 1569, .columns = 10, .transposed_a = transposed},
                biased, types);
      }
    compare(stream, {.rows = 33, .depth = 20, .columns = 36, .adds = true}, false, types);
    compare(stream,
            {.rows = 12, .depth = 20, .columns = 8, .batches = 5, .a_step = 240, .b_step = 160},
            false, types);
  }
}

// All calls of the same kind share a plan.
TEST(ContractProducts, AddTheBiasOfTheirCall) {
  const EmulatedStream first, second;
  const cuda::Product p{.rows = 12, .depth = 20, .columns = 8, .transposed_b = true};
  const Tensor a = random_tensor({12, 20}, 1), b = random_tensor({8, 20}, 2);
  for (std::uint64_t call = 0; call < 4; ++call) {
    const EmulatedStream& stream = call % 2 == 0 ? first : second;
    const auto there = [&](const Tensor& tensor) {
      return on_device(stream.get(), cast(tensor, DType::f32));
    };
    const Tensor bias = random_tensor({8}, 3 + call), zeros = Tensor::zeros({12, 8}, DType::f64);
    const Tensor x = there(a), w = there(b), added = there(bias), y = there(zeros);
    ASSERT_TRUE(cuda::multiply_by_library(stream.get(), p, {DType::f32, DType::f32}, x.raw(),
                                          w.raw(), added.raw(), y.raw()));
    expect_near(stream, y, product_of(p, a, b, bias, zeros), 1e-4);
  }
}

// 1 + 2^-12 is 1 in TF32, which has ten bits of mantissa.
TEST(ContractProducts, RoundFactorsToTf32OnlyIfTheStreamAllowsThatForMatrices) {
  const EmulatedStream own;
  const cuda::Product p{.rows = 64, .depth = 64, .columns = 64};
  Tensor factors = Tensor::empty({64, 64}, DType::f64, Device::cpu());
  reference::fill({}, 1 + 0x1p-12, factors);
  const Tensor a = on_device(own.get(), cast(factors, DType::f32));
  reference::fill({}, 1, factors);
  const Tensor b = on_device(own.get(), cast(factors, DType::f32));
  const auto product = [&](const Stream& stream) {
    const Tensor y = Tensor::empty({64, 64}, DType::f32, stream.device);
    EXPECT_TRUE(cuda::multiply_by_library(stream, p, {DType::f32, DType::f32}, a.raw(), b.raw(),
                                          nullptr, y.raw()));
    return on_cpu(stream, y).data<float>()[0];
  };
  constexpr float exact = 64 + 0x1p-6f;
  Stream stream = own.get();
  EXPECT_EQ(product(stream), exact);
  stream.conv_tf32 = true;
  EXPECT_EQ(product(stream), exact);
  stream.matmul_tf32 = true;
#ifdef TROUPE_CUDA_EMULATOR
  EXPECT_EQ(product(stream), 64);
#else
  EXPECT_THAT(product(stream), ::testing::AnyOf(64, exact)) << "the library need not";
#endif
}

TEST(ContractProducts, AreDeclinedForAddressesBetweenMultiplesOf16) {
  const EmulatedStream stream;
  const cuda::Product p{.rows = 4, .depth = 4, .columns = 4};
  const auto zeros = [&](const Shape& shape) {
    return on_device(stream.get(), Tensor::zeros(shape, DType::f32));
  };
  const Tensor x = zeros({32}), y = zeros({16});
  const void* aligned = x.raw();
  void* between = x.narrow(1, 16).raw();
  const auto multiply = [&](const void* a, const void* b, const void* bias, void* to) {
    return cuda::multiply_by_library(stream.get(), p, {DType::f32, DType::f32}, a, b, bias, to);
  };
  EXPECT_TRUE(multiply(aligned, aligned, aligned, y.raw()));
  EXPECT_FALSE(multiply(between, aligned, aligned, y.raw()));
  EXPECT_FALSE(multiply(aligned, between, aligned, y.raw()));
  EXPECT_FALSE(multiply(aligned, aligned, between, y.raw()));
  EXPECT_FALSE(multiply(aligned, aligned, aligned, between));
}

// --- cuDNN ---------------------------------------------------------------------------------------

using reference::in_layout;

struct Images {
  ConvolutionOptions options;
  Shape x;
};

Shape output_of(const ConvolutionOptions& o, const Shape& x) {
  return {x[0], o.out_channels, (x[2] + 2 * o.padding_h - reach_h(o)) / o.stride_h + 1,
          (x[3] + 2 * o.padding_w - reach_w(o)) / o.stride_w + 1};
}

/// x, weight and bias, y or its gradient, and what the reference computes of them.
struct Numbers {
  Tensor x, weight, bias, grad;
  Tensor forward, input_gradient, weight_gradient;
};

Numbers numbers_of(const Images& images) {
  const ConvolutionOptions& o = images.options;
  Numbers n{.x = random_tensor(images.x, 1),
            .weight = random_tensor(weight_shape(o), 2),
            .bias = o.bias ? random_tensor({o.out_channels}, 3) : Tensor(),
            .grad = random_tensor(output_of(o, images.x), 4)};
  const auto kernel = reference::convolution(o);
  kernel->use_weights({}, n.weight, n.bias, 1);
  n.forward = kernel->forward({}, n.x);
  n.input_gradient = kernel->input_gradient({}, n.grad, images.x, Layout::row_major);
  n.weight_gradient = Tensor::zeros(n.weight.shape(), DType::f64);
  Tensor bias_gradient = o.bias ? Tensor::zeros({o.out_channels}, DType::f64) : Tensor();
  kernel->weight_gradient({}, n.x, n.grad, n.weight_gradient, bias_gradient);
  return n;
}

void compare(const EmulatedStream& stream, const Images& images, ConvolutionPass pass,
             Layout layout) {
  const ConvolutionOptions& o = images.options;
  const Shape y = output_of(o, images.x);
  const bool forward = pass == ConvolutionPass::forward;
  const auto plan = cuda::plan_convolution(stream.get(), {.pass = pass,
                                                          .options = o,
                                                          .x = images.x,
                                                          .y = y,
                                                          .bias = o.bias && forward,
                                                          .layout = layout});
  EXPECT_EQ(plan != nullptr, has_cudnn);
  if (!plan) return;
  ASSERT_EQ(plan->adds_bias(), o.bias && forward);
  const Numbers n = numbers_of(images);
  const auto there = [&](const Tensor& tensor) {
    return on_device(stream.get(), cast(in_layout(tensor, layout), DType::f32));
  };
  const Tensor x = there(n.x), weight = there(n.weight),
               result = there(forward ? n.forward : n.grad);
  const Tensor bias =
      o.bias && forward ? on_device(stream.get(), cast(n.bias, DType::f32)) : Tensor();
  const Tensor& written = forward ? result : pass == ConvolutionPass::input_gradient ? x : weight;
  std::string before;
  for (int repetition = 0; repetition < 2; ++repetition) {
    Tensor cleared = written;
    kernels(stream.get().device, DType::f32).fill(stream.get(), NAN, cleared);
    plan->run(stream.get(), x, weight, bias, result);
    const Tensor here =
        in_layout(cast(on_cpu(stream.get(), written), DType::f64), Layout::row_major);
    expect_near(stream, here,
                forward                                   ? n.forward
                : pass == ConvolutionPass::input_gradient ? n.input_gradient
                                                          : n.weight_gradient,
                2e-4);
    if (repetition == 1) {
      EXPECT_EQ(bits(stream.get(), written), before);
    }
    before = bits(stream.get(), written);
  }
}

TEST(ContractConvolutions, AreTheReferencesOrDeclined) {
  const EmulatedStream stream;
  const ConvolutionOptions same{
      .in_channels = 16, .out_channels = 32, .padding_h = 1, .padding_w = 1, .bias = false};
  const auto changed = [&](auto change) {
    ConvolutionOptions o = same;
    change(o);
    return o;
  };
  const Images cases[] = {
      {same, {4, 16, 14, 14}},
      {changed([](auto& o) { o.bias = true; }), {4, 16, 13, 11}},
      {changed([](auto& o) { o.stride_h = o.stride_w = 2; }), {4, 16, 14, 14}},
      {changed([](auto& o) {
         o.kernel_h = o.kernel_w = 1;
         o.padding_h = o.padding_w = 0;
       }),
       {4, 16, 9, 9}},
      {changed([](auto& o) { o.dilation_h = o.dilation_w = o.padding_h = o.padding_w = 2; }),
       {2, 16, 12, 12}},
      {changed([](auto& o) { o.groups = 16; }), {2, 16, 12, 12}},
      {changed([](auto& o) { o.in_channels = 3; }), {4, 3, 32, 32}},
  };
  for (const Images& images : cases)
    for (const Layout layout : {Layout::row_major, Layout::nhwc})
      for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::input_gradient,
                              ConvolutionPass::weight_gradient}) {
        SCOPED_TRACE(::testing::Message() << to_string(images.x) << " " << name_of(layout)
                                          << " pass " << static_cast<int>(pass));
        compare(stream, images, pass, layout);
      }
}

TEST(ContractConvolutions, AreDeclinedInF64) {
  const Images images{{.in_channels = 16, .out_channels = 16, .bias = false}, {2, 16, 8, 8}};
  const EmulatedStream stream;
  EXPECT_FALSE(cuda::plan_convolution(stream.get(), {.dtype = DType::f64,
                                                     .options = images.options,
                                                     .x = images.x,
                                                     .y = output_of(images.options, images.x)}));
}

}  // namespace
}  // namespace troupe::testing

#include <gmock/gmock.h>

#include "convolution_oracle.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/processor.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using oracle::Values;
using testing::HasSubstr;

struct Sizes {
  std::int64_t rows, in, out;
};

/// c[m, n] = sum over k of a[m, k] b[k, n], with the strides of both given.
Values product(const Values& a, std::int64_t a_row, std::int64_t a_column, const Values& b,
               std::int64_t b_row, std::int64_t b_column, std::int64_t rows, std::int64_t columns,
               std::int64_t inner) {
  Values c(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t k = 0; k < inner; ++k)
        c[static_cast<std::size_t>(i * columns + j)] +=
            a[static_cast<std::size_t>(i * a_row + k * a_column)] *
            b[static_cast<std::size_t>(k * b_row + j * b_column)];
  return c;
}

void expect_close(const Tensor& found, const Values& expected) {
  EXPECT_LT(oracle::relative_difference(oracle::to_values(found), expected), 3e-6);
}

TEST(Linear, AgreesWithTheFormulaInAllDirections) {
  for (const auto& [rows, in, out] :
       {Sizes{64, 64, 10}, {1, 7, 3}, {5, 33, 1}, {3, 1, 17}, {128, 100, 48}})
    for (bool bias : {true, false})
      for (int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message() << rows << ": " << in << " -> " << out);
        const Values x = oracle::random_values(rows * in, 1),
                     w = oracle::random_values(out * in, 2);
        const Values b = oracle::random_values(out, 3), g = oracle::random_values(rows * out, 4);
        const Stream stream{.threads = threads};
        const auto kernel = cpu::linear({.in_features = in, .out_features = out, .bias = bias});
        const Tensor x_tensor = oracle::to_tensor({rows, in}, x);
        const Tensor g_tensor = oracle::to_tensor({rows, out}, g);
        kernel->use_weights(stream, oracle::to_tensor({out, in}, w),
                            bias ? oracle::to_tensor({out}, b) : Tensor(), 1);

        Values y = product(x, in, 1, w, 1, in, rows, out, in);
        if (bias)
          for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
        expect_close(kernel->forward(stream, x_tensor), y);
        expect_close(kernel->input_gradient(stream, g_tensor, {rows, in}, Layout::row_major),
                     product(g, out, 1, w, in, 1, rows, in, out));
        Tensor w_grad = Tensor::empty({out, in}, DType::f32, Device::cpu()),
               b_grad = Tensor::empty({out}, DType::f32, Device::cpu());
        kernel->weight_gradient(stream, x_tensor, g_tensor, w_grad, b_grad);
        expect_close(w_grad, product(g, 1, out, x, in, 1, out, in, rows));
        if (bias)
          expect_close(b_grad, product(Values(g.size(), 1.0), 0, 1, g, out, 1, 1, out, rows));
      }
}

TEST(Linear, RoundsProductsToBf16) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "this processor has no instructions for bf16";
  const Stream rounding{.products = DType::bf16};
  for (const auto& [rows, in, out] : {Sizes{64, 64, 10}, {1, 7, 3}, {5, 33, 1}, {128, 100, 48}}) {
    SCOPED_TRACE(testing::Message() << rows << ": " << in << " -> " << out);
    const auto kernel = cpu::linear({.in_features = in, .out_features = out});
    const Tensor x = oracle::to_tensor({rows, in}, oracle::random_values(rows * in, 1));
    const Tensor g = oracle::to_tensor({rows, out}, oracle::random_values(rows * out, 4));
    const Tensor w = oracle::to_tensor({out, in}, oracle::random_values(out * in, 2));
    const Tensor b = oracle::to_tensor({out}, oracle::random_values(out, 3));
    const auto results = [&, rows = rows, in = in, out = out](const Stream& stream) {
      kernel->use_weights(stream, w, b, 1);
      std::vector<Tensor> all{kernel->forward(stream, x),
                              kernel->input_gradient(stream, g, {rows, in}, Layout::row_major),
                              Tensor::empty({out, in}, DType::f32, Device::cpu()),
                              Tensor::empty({out}, DType::f32, Device::cpu())};
      kernel->weight_gradient(stream, x, g, all[2], all[3]);
      return all;
    };
    const auto exact = results({}), rounded = results(rounding), again = results({});
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const Values expected = oracle::to_values(exact[i]);
      EXPECT_LT(oracle::relative_difference(oracle::to_values(rounded[i]), expected), 0.02) << i;
      EXPECT_EQ(oracle::to_values(again[i]), expected) << i;
    }
    EXPECT_NE(oracle::to_values(rounded[0]), oracle::to_values(exact[0]));
  }
}

TEST(Linear, TakesNewWeightsWithANewVersion) {
  const auto kernel = cpu::linear({.in_features = 2, .out_features = 1, .bias = false});
  const Tensor x = oracle::to_tensor({1, 2}, {3, 4});
  kernel->use_weights({}, oracle::to_tensor({1, 2}, {1, 10}), {}, 1);
  EXPECT_EQ(oracle::to_values(kernel->forward({}, x)), Values{43});
  kernel->use_weights({}, oracle::to_tensor({1, 2}, {10, 1}), {}, 1);
  EXPECT_EQ(oracle::to_values(kernel->forward({}, x)), Values{43});
  kernel->use_weights({}, oracle::to_tensor({1, 2}, {10, 1}), {}, 2);
  EXPECT_EQ(oracle::to_values(kernel->forward({}, x)), Values{34});
}

TEST(Linear, GivesTheSameBitsOnEveryRun) {
  const auto kernel = cpu::linear({.in_features = 300, .out_features = 70});
  const Tensor x = oracle::to_tensor({96, 300}, oracle::random_values(std::int64_t{96} * 300, 1));
  const Tensor g = oracle::to_tensor({96, 70}, oracle::random_values(std::int64_t{96} * 70, 2));
  Values first;
  for (int repeat = 0; repeat < 5; ++repeat) {
    Tensor w_grad = Tensor::empty({70, 300}, DType::f32, Device::cpu()),
           b_grad = Tensor::empty({70}, DType::f32, Device::cpu());
    kernel->weight_gradient({.threads = 2}, x, g, w_grad, b_grad);
    Values all = oracle::to_values(w_grad);
    for (double value : oracle::to_values(b_grad)) all.push_back(value);
    if (repeat == 0) first = all;
    EXPECT_EQ(all, first);
  }
}

TEST(Linear, NamesTheOperationAndTheValuesThatDoNotFit) {
  const auto message_of = [](auto act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto kernel = cpu::linear({.in_features = 64, .out_features = 10});
  const Tensor w = Tensor::zeros({10, 64}), b = Tensor::zeros({10});
  EXPECT_THAT(message_of([&] {
                kernel->forward({}, Tensor::zeros({2, 64}));
              }),
              HasSubstr("before use_weights"));
  EXPECT_THAT(message_of([&] { kernel->use_weights({}, b, b, 1); }),
              HasSubstr("the weight is f32 [10], expected f32 [10, 64]"));
  EXPECT_THAT(message_of([&] { kernel->use_weights({}, w, Tensor(), 1); }),
              HasSubstr("the bias is missing"));
  kernel->use_weights({}, w, b, 1);
  const auto wrong = message_of([&] { kernel->forward({}, Tensor::zeros({2, 65})); });
  EXPECT_THAT(wrong, HasSubstr("linear 64 -> 10: the input is f32 [2, 65], expected f32 [2, 64]"));
  EXPECT_THAT(wrong, HasSubstr("flattened"));
  EXPECT_THAT(message_of([&] { kernel->forward({}, Tensor()); }), HasSubstr("missing"));
  EXPECT_THAT(message_of([&] {
                kernel->forward({}, Tensor::zeros({0, 64}));
              }),
              HasSubstr("[0, 64]"));
  EXPECT_THAT(message_of([&] {
                kernel->input_gradient({}, Tensor::zeros({2, 64}), {2, 64}, Layout::row_major);
              }),
              HasSubstr("the output's gradient"));
  EXPECT_THAT(message_of([] { cpu::linear({.in_features = 0, .out_features = 10}); }),
              HasSubstr("zero or negative"));
}

}  // namespace
}  // namespace troupe

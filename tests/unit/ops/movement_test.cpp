#include "ops/primitives/movement.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "ops/primitives/element_space.h"
#include "ops/primitives/parameter.h"
#include "ops/primitives/reshape.h"
#include "runtime/error.h"
#include "vector_support.h"

namespace troupe {
namespace {

using primitives::Concatenate, primitives::Expand, primitives::Permute, primitives::Slice;
using test::random_values;
using test::tensor_of, test::values_of;
using testing::HasSubstr;

Tensor random_tensor(const Shape& shape, Layout layout = Layout::row_major, unsigned seed = 1) {
  return tensor_of(shape, layout, random_values(shape.element_count(), seed));
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Permute, SharesTheMemoryOfImagesThatLieInTheNewOrder) {
  const Tensor x = random_tensor({2, 5, 3, 4}, Layout::nhwc);
  const Tensor y = Permute{{0, 2, 3, 1}}.forward({}, x);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(y.layout(), Layout::row_major);
  EXPECT_EQ(y.raw(), x.raw());
}

TEST(Permute, RefusesAxesThatAreNotThoseOfTheInput) {
  const Tensor x = random_tensor({2, 3, 4});
  for (const std::vector<int>& axes :
       {std::vector<int>{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, -4}, {0, 1, 2, 2}})
    EXPECT_THAT(error_of([&] { Permute{axes}.forward({}, x); }), HasSubstr("of [2, 3, 4]"));
}

TEST(Permute, TakesTensorsWithoutElements) {
  EXPECT_EQ((Permute{{1, 0}}.forward({}, random_tensor({0, 3})).shape()), (Shape{3, 0}));
}

TEST(Slice, AddsToWhatOtherSlicesHaveGiven) {
  Pass pass;
  pass.dtype = DType::f64;
  Tape tape(pass);
  const Value x = tape.input(Tensor::zeros({3, 2}, DType::f64), true);
  const Value a = tape.record(Slice{0, 0, 2}, x), b = tape.record(Slice{0, 1, 2}, x);
  const Value whole = tape.record(Slice{0, 0, 3}, x);
  const Value parts[] = {a, b, whole};
  const Value y = tape.record(Concatenate{0}, std::span<const Value>(parts));
  std::vector<double> numbers(14);
  std::iota(numbers.begin(), numbers.end(), 1.0);
  const Tensor grad = Tensor::from<double>({7, 2}, numbers);
  const Tensor sum = tape.backward(y, grad)[0];
  EXPECT_EQ(std::vector<double>(sum.elements<double>().begin(), sum.elements<double>().end()),
            (std::vector<double>{1 + 9, 2 + 10, 3 + 5 + 11, 4 + 6 + 12, 7 + 13, 8 + 14}));
  EXPECT_EQ(grad.elements<double>()[0], 1.0);
}

TEST(Slice, KeepsTheLayoutOfImages) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw16c}) {
    const Tensor y = Slice{1, 16, 32}.forward({}, random_tensor({2, 64, 3, 4}, layout));
    EXPECT_EQ(y.layout(), layout);
  }
  const Tensor part = Slice{1, 8, 16}.forward({}, random_tensor({2, 64, 3, 4}, Layout::nchw16c));
  EXPECT_EQ(part.layout(), Layout::nhwc);
}

TEST(Slice, OfAWholeAxisIsTheInput) {
  for (const Layout layout : {Layout::row_major, Layout::nchw16c}) {
    const Tensor x = random_tensor({2, 16, 3, 4}, layout);
    Slice slice{2, 0, 3};
    const Tensor y = slice.forward({}, x);
    EXPECT_EQ(y.raw(), x.raw());
    EXPECT_EQ(y.layout(), layout);
    std::vector<InputGradient> gradients(1);
    slice.input_gradient({}, x, gradients);
    EXPECT_EQ(gradients[0].grad.raw(), x.raw());
  }
}

TEST(Slice, RefusesRangesOutsideOfTheAxis) {
  const Tensor x = random_tensor({2, 5});
  for (const Slice& slice : {Slice{1, 3, 3}, Slice{1, -1, 2}, Slice{1, 6, 0}, Slice{2, 0, 1},
                             Slice{-3, 0, 1}, Slice{1, 2, -1}, Slice{1, INT64_MAX, 2}})
    EXPECT_THAT(error_of([&] { Slice(slice).forward({}, x); }), HasSubstr("of [2, 5]"));
}

TEST(Expand, RefusesAxesThatAreNeitherOneNorOfTheSize) {
  const Tensor x = random_tensor({2, 3});
  for (const Shape& shape : {Shape{2, 4}, Shape{2}, Shape{2, 3, 4}})
    EXPECT_THAT(error_of([&] { Expand{shape}.forward({}, x); }), HasSubstr("[2, 3] to ["));
}

TEST(Concatenate, KeepsTheLayoutOfImages) {
  for (const Layout layout : {Layout::row_major, Layout::nhwc, Layout::nchw16c}) {
    const std::vector<Tensor> inputs{random_tensor({2, 16, 3, 4}, layout),
                                     random_tensor({2, 32, 3, 4}, layout)};
    EXPECT_EQ(Concatenate{1}.forward({}, inputs).layout(), layout);
  }
}

TEST(Concatenate, GivesNhwcWhereBlocksDoNotFit) {
  const std::vector<Tensor> inputs{random_tensor({2, 16, 3, 4}, Layout::nchw16c),
                                   random_tensor({2, 5, 3, 4}, Layout::nhwc)};
  const Tensor y = Concatenate{1}.forward({}, inputs);
  EXPECT_EQ(y.layout(), Layout::nhwc);
  EXPECT_EQ(values_of(Slice{1, 0, 16}.forward({}, y)), values_of(inputs[0]));
  EXPECT_EQ(values_of(Slice{1, 16, 5}.forward({}, y)), values_of(inputs[1]));
}

TEST(Concatenate, RefusesInputsThatDoNotFit) {
  const std::vector<Tensor> inputs{random_tensor({2, 3}), random_tensor({2, 4})};
  EXPECT_THAT(error_of([&] { Concatenate{0}.forward({}, inputs); }),
              HasSubstr("[2, 3] and [2, 4] along axis 0"));
  EXPECT_THAT(error_of([&] { Concatenate{2}.forward({}, inputs); }), HasSubstr("along axis 2"));
  EXPECT_THAT(error_of([&] { Concatenate{0}.forward({}, {}); }), HasSubstr("no inputs"));
}

TEST(Parameter, IsNotCopied) {
  const std::vector<Tensor> weights{random_tensor({3, 4})};
  Pass pass;
  pass.weights = weights;
  EXPECT_EQ(primitives::Parameter{{0}}.forward(pass).raw(), weights[0].raw());
}

// Large enough that threads share the work: lines, planes to transpose, single elements.
TEST(CopyElements, GivesTheElementsOfTheReferenceForAnyThreads) {
  const std::vector<std::pair<Shape, std::vector<int>>> cases{
      {{64, 96, 70}, {1, 0, 2}}, {{130, 257, 3}, {0, 2, 1}},      {{5, 300, 170}, {0, 2, 1}},
      {{300, 400}, {1, 0}},      {{4, 33, 12, 65}, {0, 2, 1, 3}}, {{4, 33, 12, 65}, {3, 2, 1, 0}}};
  for (const auto& [shape, axes] : cases) {
    const std::vector<float> values = random_values(shape.element_count(), 3);
    const Tensor x = tensor_of(shape, Layout::row_major, values);
    const Tensor exact =
        Tensor::from<double>(shape, std::vector<double>(values.begin(), values.end()));
    const Tensor expected = Permute{axes}.forward({.dtype = DType::f64}, exact);
    for (const int threads : {1, 2, 3, 4}) {
      const Tensor y = Permute{axes}.forward({.stream = {.threads = threads}}, x);
      ASSERT_EQ(y.shape(), expected.shape());
      for (std::int64_t e = 0; e < y.element_count(); ++e)
        ASSERT_EQ(y.data<float>()[e], expected.data<double>()[e])
            << e << " of " << to_string(shape);
    }
  }
}

}  // namespace
}  // namespace troupe

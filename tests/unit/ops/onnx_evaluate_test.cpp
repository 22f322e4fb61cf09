// Nodes of ONNX files that are computed when the file is read.

#include "ops/graph/onnx_evaluate.h"

#include <gmock/gmock.h>

#include <cmath>

#include "onnx_model.h"
#include "runtime/error.h"

namespace troupe::graph::onnx {
namespace {

using testing::ElementsAre;
using testing_ops::Dims;
using testing_ops::OnnxAttribute;

constexpr Size batch{0, 1};

Numbers integers(const Dims& dims, std::vector<Size> elements) {
  return {.dtype = DType::i64, .shape = Shape(dims), .integers = std::move(elements)};
}
Numbers integers(const Dims& dims, const Dims& elements) {
  std::vector<Size> sizes;
  for (const std::int64_t element : elements) sizes.push_back(fixed(element));
  return integers(dims, std::move(sizes));
}
Numbers vector(const Dims& elements) {
  return integers({static_cast<std::int64_t>(elements.size())}, elements);
}
Numbers reals(const Dims& dims, std::vector<double> elements) {
  return {.dtype = DType::f32, .shape = Shape(dims), .reals = std::move(elements)};
}

Numbers result_of(const std::string& operation, const std::vector<Numbers>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {}) {
  onnx_wire::Node proto;
  proto.set_op_type(operation);
  for (std::size_t i = 0; i < inputs.size(); ++i) proto.add_input(std::to_string(i));
  proto.add_output("y");
  for (const OnnxAttribute& attribute : attributes) *proto.add_attribute() = attribute.proto;
  std::vector<const Numbers*> pointers;
  for (const Numbers& input : inputs) pointers.push_back(&input);
  Budget budget;
  const std::string origin = "net.onnx";
  return evaluate(NodeView(proto, origin), pointers, budget).value();
}

Dims fixed_elements(const Numbers& numbers) {
  Dims elements;
  for (const Size& size : numbers.integers) elements.push_back(size.fixed);
  return elements;
}

TEST(OnnxEvaluate, BroadcastsAsNumPy) {
  const Numbers sum =
      result_of("Add", {integers({2, 1}, Dims{10, 20}), integers({3}, Dims{1, 2, 3})});
  EXPECT_EQ(sum.shape, (Shape{2, 3}));
  EXPECT_THAT(fixed_elements(sum), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THROW((void)result_of("Add", {vector({1, 2}), vector({1, 2, 3})}), Error);
}

TEST(OnnxEvaluate, ComputesWithTheSymbolOfTheBatch) {
  const Numbers n = integers({}, std::vector{batch});
  EXPECT_EQ(result_of("Mul", {n, integers({}, Dims{6})}).integers[0], (Size{0, 6}));
  EXPECT_EQ(result_of("Div", {result_of("Mul", {n, integers({}, Dims{6})}), integers({}, Dims{3})})
                .integers[0],
            (Size{0, 2}));
  EXPECT_EQ(result_of("Add", {n, integers({}, Dims{1})}).integers[0], (Size{1, 1}));
  EXPECT_THROW((void)result_of("Mul", {n, n}), Error);
  EXPECT_THROW((void)result_of("Div", {n, integers({}, Dims{2})}), Error);
  EXPECT_THROW((void)result_of("Mod", {n, integers({}, Dims{2})}), Error);
  EXPECT_EQ(result_of("Equal", {n, integers({}, Dims{-1})}).integers[0], Size{});
  EXPECT_EQ(result_of("Greater", {n, integers({}, Dims{1})}).integers[0], fixed(1));
  EXPECT_THROW((void)result_of("Equal", {n, integers({}, Dims{7})}), Error);
}

TEST(OnnxEvaluate, RefusesIntegersThatOverflowOrDivideByZero) {
  const Numbers most = vector({std::numeric_limits<std::int64_t>::max()});
  const Numbers least = vector({std::numeric_limits<std::int64_t>::min()});
  EXPECT_THROW((void)result_of("Mul", {most, vector({2})}), Error);
  EXPECT_THROW((void)result_of("Add", {most, vector({1})}), Error);
  EXPECT_THROW((void)result_of("Neg", {least}), Error);
  EXPECT_THROW((void)result_of("Abs", {least}), Error);
  for (const std::int64_t divisor : {0, -1}) {
    EXPECT_THROW((void)result_of("Div", {least, vector({divisor})}), Error);
    EXPECT_THROW((void)result_of("Mod", {least, vector({divisor})}), Error);
  }
}

TEST(OnnxEvaluate, TakesTheRemainderOfTheSignOfTheDivisor) {
  EXPECT_THAT(fixed_elements(result_of("Mod", {vector({7, -7}), vector({3})})), ElementsAre(1, 2));
}

TEST(OnnxEvaluate, ComputesRealsInDoublePrecision) {
  EXPECT_EQ(result_of("Sqrt", {reals({}, {2})}).reals[0], std::sqrt(2.0));
  EXPECT_EQ(result_of("Div", {reals({}, {1}), reals({}, {3})}).reals[0], 1.0 / 3.0);
  EXPECT_EQ(result_of("Cast", {vector({3})}, {{"to", std::int64_t{1}}}).reals[0], 3.0);
  EXPECT_EQ(result_of("CastLike", {reals({}, {2.7}), vector({3})}).integers[0], fixed(2));
  EXPECT_THROW((void)result_of("CastLike", {reals({}, {std::nan("")}), vector({3})}), Error);
}

TEST(OnnxEvaluate, PicksAndSlices) {
  const Numbers table = integers({2, 3}, Dims{0, 1, 2, 3, 4, 5});
  const Numbers columns =
      result_of("Gather", {table, vector({-1, 0})}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(columns.shape, (Shape{2, 2}));
  EXPECT_THAT(fixed_elements(columns), ElementsAre(2, 0, 5, 3));
  const Numbers row = result_of("Gather", {table, integers({}, Dims{1})});
  EXPECT_EQ(row.shape, Shape{3});
  EXPECT_THAT(fixed_elements(row), ElementsAre(3, 4, 5));
  EXPECT_THROW((void)result_of("Gather", {table, vector({2})}), Error);

  const Numbers part = result_of("Slice", {table, vector({1, -2}), vector({9, 3}), vector({0, 1})});
  EXPECT_EQ(part.shape, (Shape{1, 2}));
  EXPECT_THAT(fixed_elements(part), ElementsAre(4, 5));
  const Numbers stepped =
      result_of("Slice", {table, vector({0}), vector({std::numeric_limits<std::int64_t>::max()}),
                          vector({-1}), vector({2})});
  EXPECT_THAT(fixed_elements(stepped), ElementsAre(0, 2, 3, 5));
  EXPECT_THROW((void)result_of("Slice", {table, vector({0}), vector({2}), vector({2})}), Error);
}

TEST(OnnxEvaluate, MovesElements) {
  const Numbers table = integers({2, 3}, Dims{0, 1, 2, 3, 4, 5});
  const Numbers turned = result_of("Transpose", {table});
  EXPECT_EQ(turned.shape, (Shape{3, 2}));
  EXPECT_THAT(fixed_elements(turned), ElementsAre(0, 3, 1, 4, 2, 5));
  const Numbers joined =
      result_of("Concat", {table, integers({2, 1}, Dims{8, 9})}, {{"axis", std::int64_t{-1}}});
  EXPECT_THAT(fixed_elements(joined), ElementsAre(0, 1, 2, 8, 3, 4, 5, 9));
  EXPECT_EQ(result_of("Unsqueeze", {table, vector({0, -1})}).shape, (Shape{1, 2, 3, 1}));
  EXPECT_EQ(result_of("Squeeze", {integers({1, 2, 1}, Dims{1, 2}), vector({-1})}).shape,
            (Shape{1, 2}));
  EXPECT_THROW((void)result_of("Squeeze", {table, vector({0})}), Error);
  EXPECT_THROW((void)result_of("Unsqueeze", {table, vector({1, 1})}), Error);
  EXPECT_EQ(result_of("Reshape", {table, vector({0, -1})}).shape, (Shape{2, 3}));
  EXPECT_THROW((void)result_of("Reshape", {table, vector({4, -1})}), Error);
  const Numbers lower =
      result_of("Trilu", {integers({2, 2}, Dims{1, 2, 3, 4})}, {{"upper", std::int64_t{0}}});
  EXPECT_THAT(fixed_elements(lower), ElementsAre(1, 0, 3, 4));
  const Numbers wide = result_of("Expand", {integers({2, 1}, Dims{1, 2}), vector({2})});
  EXPECT_THAT(fixed_elements(wide), ElementsAre(1, 1, 2, 2));
}

TEST(OnnxEvaluate, ChoosesByTruthValues) {
  const Numbers truth = result_of("Not", {result_of("Equal", {vector({1, 2}), vector({2})})});
  EXPECT_EQ(truth.dtype, DType::boolean);
  const Numbers chosen = result_of("Where", {truth, reals({}, {5}), reals({2}, {6, 7})});
  EXPECT_THAT(chosen.reals, ElementsAre(5, 7));
}

TEST(OnnxEvaluate, FillsRangesAndShapes) {
  EXPECT_THAT(fixed_elements(result_of(
                  "Range", {integers({}, Dims{5}), integers({}, Dims{0}), integers({}, Dims{-2})})),
              ElementsAre(5, 3, 1));
  EXPECT_THAT(result_of("Range", {reals({}, {0}), reals({}, {1}), reals({}, {0.4})}).reals,
              ElementsAre(0, 0.4, 0.8));
  EXPECT_THAT(result_of("ConstantOfShape", {vector({2})}).reals, ElementsAre(0, 0));
  EXPECT_THROW((void)result_of("ConstantOfShape", {vector({-2})}), Error);
}

}  // namespace
}  // namespace troupe::graph::onnx

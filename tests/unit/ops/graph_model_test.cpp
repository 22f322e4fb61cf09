#include <gtest/gtest.h>

#include "ops/graph/builder.h"
#include "ops/graph/model_of.h"
#include "ops/graph/shapes.h"
#include "ops/nn/network.h"

namespace troupe::graph {
namespace {

/// Sequences in an array [samples, 8, 6] are stored as images of one channel.
TEST(GraphModel, TakesSequencesAsArraysStoreThem) {
  GraphBuilder builder;
  const ValueId x = builder.add_value({.kind = Value::Kind::input,
                                       .name = "x",
                                       .shape = {{.per_sample = 1}, fixed(8), fixed(6)}});
  const ValueId output = builder.add(Reduce{.axes = {1}}, {x}, {.name = "mean"});
  builder.graph.input = x;
  builder.graph.output = output;
  Network network(model_of(std::make_shared<const Graph>(builder.graph), {}), 0, 1, DType::f32,
                  Stream{});
  network.use(initial_state(network.spec(), DType::f32, 1));
  Tensor samples = Tensor::empty(Shape{2, 8, 6}, DType::f32, Device::cpu());
  for (int i = 0; i < 96; ++i) samples.data<float>()[i] = static_cast<float>(i);
  const Tensor mean = network.evaluate(samples.reshape(Shape{2, 1, 8, 6}));
  EXPECT_EQ(mean.shape(), (Shape{2, 6}));
  EXPECT_EQ(mean.data<float>()[0], 21.0f);  // (0 + 6 + ... + 42) / 8
  EXPECT_EQ(mean.data<float>()[11], 74.0f);
}

}  // namespace
}  // namespace troupe::graph

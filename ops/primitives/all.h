#pragma once
// The list of all primitives. A test suite made with
//
//     TYPED_TEST_SUITE(EveryPrimitive, AllPrimitives<testing::Types>);
//
// checks each of them.

#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/linear.h"
#include "ops/primitives/pooling.h"
#include "ops/primitives/reshape.h"
#include "ops/primitives/softmax_cross_entropy.h"

namespace troupe::primitives {

template <template <class...> class List>
using AllPrimitives = List<AdaptiveAveragePool2d, Add, AveragePool2d, BatchNorm2d, Convolution2d,
                           Dropout, Flatten, Linear, MaxPool2d, Relu, Reshape, SoftmaxCrossEntropy>;

}  // namespace troupe::primitives

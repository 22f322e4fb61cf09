#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"

namespace troupe::testing {
namespace {

void compare(const EmulatedStream& stream, const Tensor& x, const Tensor& grad, int axis) {
  for (const bool logarithm : {false, true})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(to_string(x.shape()) + " axis " + std::to_string(axis) +
                   (logarithm ? " logarithm" : "") + (dtype == DType::f64 ? " f64" : " f32"));
      const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, dtype); };
      const KernelTable& cuda = kernels(stream.get().device, dtype);
      const double bound = dtype == DType::f64 ? 1e-12 : 1e-5;
      const Tensor y = reference::softmax({}, x, axis, logarithm);
      expect_near(stream, cuda.softmax(stream.get(), on(x), axis, logarithm), y, bound);
      expect_near(stream, cuda.softmax_backward(stream.get(), on(y), on(grad), axis, logarithm),
                  reference::softmax_backward({}, y, grad, axis, logarithm), bound);
    }
}

TEST(CudaSoftmax, TakesRowsOfAWarpAndOfABlockAndColumns) {
  EmulatedStream stream;
  const struct {
    Shape shape;
    int axis;
  } cases[] = {{{9, 33}, 1}, {{3, 1100}, 1}, {{2, 7, 150}, 1}, {{300, 2}, 0}, {{1, 1}, 0}};
  for (const auto& [shape, axis] : cases)
    compare(stream, random_tensor(shape, 1), random_tensor(shape, 2), axis);
}

TEST(CudaSoftmax, TakesEmptyTensors) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 3}})
    compare(stream, random_tensor(shape, 1), random_tensor(shape, 2), 1);
}

TEST(CudaSoftmax, KeepsInfinitiesAndNaNsInTheirLines) {
  EmulatedStream stream;
  for (const std::int64_t length : {5, 1030}) {
    Tensor rows = random_tensor({4, length}, 3);
    const auto put = [&](std::int64_t row, std::int64_t i, double value) {
      rows.data<double>()[row * length + i] = value;
    };
    put(0, length - 1, NAN), put(1, 3, -INFINITY), put(2, 2, INFINITY), put(3, 0, 1e30);
    compare(stream, rows, random_tensor(rows.shape(), 4), 1);
  }
  Tensor columns = random_tensor({4, 6}, 5);
  columns.data<double>()[7] = NAN;
  columns.data<double>()[8] = -INFINITY;
  compare(stream, columns, random_tensor({4, 6}, 6), 0);
}

TEST(CudaSoftmax, TakesRowsThatBeginAtNoBoundary) {
  EmulatedStream stream;
  const Tensor x = random_tensor({5, 7}, 7);
  const Tensor part = on_device(stream.get(), x, DType::f32).narrow(1, 3);
  expect_near(stream,
              kernels(stream.get().device, DType::f32).softmax(stream.get(), part, 1, false),
              reference::softmax({}, x.narrow(1, 3).clone(), 1, false), 1e-6);
}

}  // namespace
}  // namespace troupe::testing

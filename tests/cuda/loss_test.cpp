#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"

namespace troupe::testing {
namespace {

Tensor classes_of(std::int64_t samples, std::int64_t classes) {
  std::vector<std::int64_t> targets;
  for (std::int64_t n = 0; n < samples; ++n) targets.push_back(n * 7 % classes);
  return Tensor::from<std::int64_t>({samples}, targets);
}

void compare(const EmulatedStream& stream, const LossOutput& found, const LossOutput& wanted,
             double bound) {
  expect_near(stream, found.totals, wanted.totals, bound);
  ASSERT_EQ(found.logits_grad.defined(), wanted.logits_grad.defined());
  if (wanted.logits_grad.defined())
    expect_near(stream, found.logits_grad, wanted.logits_grad, bound);
}

struct Case {
  Tensor logits, targets;
  double smoothing = 0;
  Tensor weights = {};
};

void compare(const EmulatedStream& stream, const Case& c, bool with_gradient = true) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    SCOPED_TRACE(to_string(c.logits.shape()) + " " + std::string(name_of(dtype)));
    const KernelTable& cuda = kernels(stream.get().device, dtype);
    compare(stream,
            cuda.softmax_cross_entropy(stream.get(), on_device(stream.get(), c.logits, dtype),
                                       on_device(stream.get(), c.targets), 0.3, with_gradient,
                                       c.smoothing, on_device(stream.get(), c.weights)),
            reference::softmax_cross_entropy({}, c.logits, c.targets, 0.3, with_gradient,
                                             c.smoothing, c.weights),
            dtype == DType::f64 ? 1e-12 : 1e-5);
  }
}

TEST(CudaCrossEntropy, TakesFewAndManyClassesAndSamples) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{1, 1}, Shape{300, 3}, Shape{9, 33}, Shape{2, 1500}, Shape{0, 4}})
    compare(stream, {random_tensor(shape, 1), classes_of(shape[0], shape[1])});
  compare(stream, {random_tensor({5, 7}, 1), classes_of(5, 7)}, false);
}

TEST(CudaCrossEntropy, WeighsClassesAndSmoothsLabels) {
  EmulatedStream stream;
  for (const std::int64_t classes : {7, 1100}) {
    const Tensor logits = random_tensor({3, classes}, 2), targets = classes_of(3, classes);
    Tensor weights = random_tensor({classes}, 3);
    for (double& weight : weights.elements<double>()) weight = std::abs(weight);
    compare(stream, {logits, targets, 0.1});
    compare(stream, {logits, targets, 0, weights});
    compare(stream, {logits, targets, 0.2, weights});
  }
}

TEST(CudaCrossEntropy, CountsTheFirstOfEqualLogits) {
  EmulatedStream stream;
  Tensor logits = Tensor::zeros({4, 40}, DType::f64);
  logits.data<double>()[3 * 40 + 39] = logits.data<double>()[3 * 40 + 5] = 1;
  const std::vector<std::int64_t> targets{0, 1, 39, 5};
  const Case c{logits, Tensor::from<std::int64_t>({4}, targets)};
  compare(stream, c);
  const LossOutput found =
      kernels(stream.get().device, DType::f32)
          .softmax_cross_entropy(stream.get(), on_device(stream.get(), logits, DType::f32),
                                 on_device(stream.get(), c.targets), 1, false, 0, {});
  EXPECT_EQ(on_cpu(stream.get(), found.totals).data<double>()[1], 2.0);
}

TEST(CudaCrossEntropy, GivesNaNForAClassThatIsNone) {
  EmulatedStream stream;
  const Tensor logits = random_tensor({3, 5}, 4);
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  for (const std::int64_t wrong : {-1, 5}) {
    const std::vector<std::int64_t> targets{1, wrong, 4};
    const LossOutput found = cuda.softmax_cross_entropy(
        stream.get(), on_device(stream.get(), logits, DType::f32),
        on_device(stream.get(), Tensor::from<std::int64_t>({3}, targets)), 1, true, 0, {});
    const Tensor totals = on_cpu(stream.get(), found.totals);
    const Tensor gradient = on_cpu(stream.get(), found.logits_grad);
    EXPECT_TRUE(std::isnan(totals.data<double>()[0]));
    for (std::int64_t e = 0; e < 15; ++e)
      EXPECT_EQ(std::isnan(gradient.data<float>()[e]), e / 5 == 1) << e;
  }
}

TEST(CudaCrossEntropy, StaysFiniteForLargeLogitsAndHiddenClasses) {
  EmulatedStream stream;
  Tensor logits = random_tensor({3, 6}, 5);
  logits.data<double>()[0] = 1e4;
  logits.data<double>()[7] = -INFINITY;
  logits.data<double>()[12] = 5;
  logits.data<double>()[14] = NAN;
  const std::vector<std::int64_t> targets{0, 2, 1};
  compare(stream, {logits, Tensor::from<std::int64_t>({3}, targets)});
}

TEST(CudaElementwiseLosses, AreTheReferences) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{1, 1}, Shape{300, 1}, Shape{7, 40}, Shape{2, 1100}, Shape{0, 2}})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(to_string(shape));
      Tensor x = random_tensor(shape, 6), targets = random_tensor(shape, 7);
      for (double& target : targets.elements<double>()) target = std::abs(target);
      if (shape[0] == 7) x.data<double>()[0] = 900, x.data<double>()[1] = -900;
      const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, dtype); };
      const KernelTable& cuda = kernels(stream.get().device, dtype);
      const double bound = dtype == DType::f64 ? 1e-12 : 1e-5;
      compare(stream, cuda.squared_error(stream.get(), on(x), on(targets), 0.3, true),
              reference::squared_error({}, x, targets, 0.3, true), bound);
      compare(stream, cuda.binary_cross_entropy(stream.get(), on(x), on(targets), 0.3, true),
              reference::binary_cross_entropy({}, x, targets, 0.3, true), bound);
      compare(stream, cuda.binary_cross_entropy(stream.get(), on(x), on(targets), 0.3, false),
              reference::binary_cross_entropy({}, x, targets, 0.3, false), bound);
    }
}

TEST(CudaElementwiseLosses, CountSamplesWhoseOutputsAreAllRight) {
  EmulatedStream stream;
  const std::vector<double> x{1, 1, -1, 1, -1, 1}, targets{1, 1, 0, 1, 1, 1};
  const auto on = [&](const std::vector<double>& values) {
    return on_device(stream.get(), Tensor::from<double>({3, 2}, values), DType::f32);
  };
  const LossOutput found = kernels(stream.get().device, DType::f32)
                               .binary_cross_entropy(stream.get(), on(x), on(targets), 1, false);
  EXPECT_EQ(on_cpu(stream.get(), found.totals).data<double>()[1], 2.0);
}

}  // namespace
}  // namespace troupe::testing

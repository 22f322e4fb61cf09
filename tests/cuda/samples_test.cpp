// Every primitive, forward and backward, on the emulated GPU, against the reference.

#include "samples.h"

#include <gtest/gtest.h>

#include "emulated.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

using testing_ops::all_samples;
using testing_ops::distance;
using testing_ops::Outcome;
using testing_ops::RunOptions;
using testing_ops::Sample;

struct NamedSample {
  Sample sample;
};
void PrintTo(const NamedSample& named, std::ostream* out) { *out << named.sample.name; }

std::vector<NamedSample> named_samples() {
  std::vector<NamedSample> result;
  for (const Sample& sample : all_samples()) result.push_back({sample});
  return result;
}

class CudaSamples : public ::testing::TestWithParam<NamedSample> {};

/// The bounds are of activations and their gradients, and of what is kept in f32: statistics and
/// gradients of weights.
void expect_close(const Outcome& found, const Outcome& expected, double bound, double of_sums) {
  EXPECT_LE(distance(found.output, expected.output), bound);
  const auto compare = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b, double most) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].defined(), b[i].defined());
      if (a[i].defined()) {
        EXPECT_LE(distance(a[i], b[i]), most);
      }
    }
  };
  compare(found.input_gradients, expected.input_gradients, bound);
  compare(found.weight_gradients, expected.weight_gradients, of_sums);
  compare(found.statistics, expected.statistics, of_sums);
}

TEST_P(CudaSamples, AreTheReferences) {
  const Sample& sample = GetParam().sample;
  const testing_ops::Numbers numbers = testing_ops::numbers(sample);
  const Outcome expected = run(sample, numbers);
  EmulatedStream stream;
  for (const Layout layout : {Layout::row_major, Layout::nhwc})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(std::string(name_of(layout)) + " " + std::string(name_of(dtype)));
      const RunOptions options{.dtype = dtype, .layout = layout, .stream = stream.get()};
      const double bound = dtype == DType::f64 ? 1e-12 : 1e-4;
      expect_close(run(sample, numbers, options), expected, bound, bound);
    }
}

Tensor rounded(const Tensor& tensor, DType dtype) { return cast(cast(tensor, dtype), DType::f64); }

// What is stored in 16 bits is rounded; indices are not.
TEST_P(CudaSamples, AreTheReferencesWithActivationsOf16Bits) {
  const Sample& sample = GetParam().sample;
  EmulatedStream stream;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    testing_ops::Numbers numbers = testing_ops::numbers(sample);
    for (std::vector<Tensor>* tensors : {&numbers.inputs, &numbers.weights})
      for (Tensor& tensor : *tensors) tensor = rounded(tensor, dtype);
    const Outcome expected = run(sample, numbers, {.gradient = dtype});
    Stream mixed = stream.get();
    mixed.products = dtype;
    for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
      SCOPED_TRACE(std::string(name_of(layout)) + " " + std::string(name_of(dtype)));
      RunOptions options{.dtype = DType::f32,
                         .inputs = dtype,
                         .layout = layout,
                         .gradient = dtype,
                         .stream = mixed};
      // The gradient of these is computed from their rounded result.
      const bool twice = sample.name == "activate/sigmoid" || sample.name == "activate/tanh";
      const double rounding = (dtype == DType::bf16 ? 0x1p-8 : 0x1p-11) * (twice ? 4 : 1);
      expect_close(run(sample, numbers, options), expected, rounding, 1e-4);
      options.first_alone = true;  // beside tensors of f32
      expect_close(run(sample, numbers, options), expected, rounding, 1e-4);
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<NamedSample>& info) {
  std::string name = info.param.sample.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, CudaSamples, ::testing::ValuesIn(named_samples()), test_name);

}  // namespace
}  // namespace troupe::testing

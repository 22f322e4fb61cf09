#include "emulated.h"

#include <gtest/gtest.h>

#include <cmath>

#include "emulator/violations.h"
#include "ops/cuda/backend.h"
#include "ops/on_device.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "runtime/tensor/allocator.h"
#include "runtime/tensor/cast.h"
#include "samples.h"

namespace troupe::testing {

Device emulated_gpu() { return {&cuda::backend(), 0}; }

// Memory is new, so that reads of what this test did not write are found.
EmulatedStream::EmulatedStream()
    : stream_(Stream{.device = emulated_gpu()}), before_(cuda_on_cpu::errors()) {
  CachingAllocator::of(emulated_gpu()).trim();
}

EmulatedStream::~EmulatedStream() {
  try {
    synchronize(stream_.get());
  } catch (const Error&) {  // the device has failed, as the test wants it
  }
  EXPECT_LE(cuda_on_cpu::errors(), before_);
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  return testing_ops::uniform("cuda/" + std::to_string(seed), shape);
}

Tensor random_bytes(const Shape& shape, std::uint32_t least) {
  Tensor bytes = Tensor::empty(shape, DType::u8, Device::cpu());
  const RandomKey key{7, 0, 0, 0};
  for (std::int64_t i = 0; i < bytes.element_count(); ++i)
    bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(
        least + key.block(static_cast<std::uint32_t>(i))[0] % (256 - least));
  return bytes;
}

void expect_near(const EmulatedStream& stream, const Tensor& result, const Tensor& expected,
                 double bound) {
  ASSERT_EQ(result.shape(), expected.shape());
  ASSERT_EQ(result.layout(), expected.layout());
  const Tensor found = cast(on_cpu(stream.get(), result), DType::f64);
  const Tensor wanted = cast(expected, DType::f64);
  for (std::int64_t e = 0; e < found.element_count(); ++e) {
    const double a = found.data<double>()[e], b = wanted.data<double>()[e];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    ASSERT_LE(std::abs(a - b), bound * std::max(1.0, std::abs(b)))
        << "element " << e << ": " << a << ", not " << b;
  }
}

}  // namespace troupe::testing

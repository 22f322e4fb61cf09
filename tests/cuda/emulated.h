#pragma once
// The GPU of the tests: the code of ops/cuda on the emulator; in cuda_device_tests, on a GPU.

#include <cstdint>

#include "runtime/device/own_stream.h"
#include "runtime/tensor/tensor.h"

namespace troupe::testing {

Device emulated_gpu();

/// An opened stream of it. Fails the test if the emulator has found a race, an access out of bounds
/// or a read of what nobody wrote between its construction and its end. The messages are on stderr.
/// On a GPU nobody looks.
class EmulatedStream {
 public:
  EmulatedStream();
  ~EmulatedStream();
  const Stream& get() const { return stream_.get(); }

 private:
  OwnStream stream_;
  int before_;
};

/// U(-1, 1) in f64, row-major.
Tensor random_tensor(const Shape& shape, std::uint64_t seed);

/// Of u8, from `least` to 255.
Tensor random_bytes(const Shape& shape, std::uint32_t least = 0);

/// The result, of any type and device, has the expected shape and layout, and no element is further
/// from the expected one than bound * max(1, |expected|).
void expect_near(const EmulatedStream& stream, const Tensor& result, const Tensor& expected,
                 double bound);

}  // namespace troupe::testing

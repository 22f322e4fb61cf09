#pragma once
// Small work for streams, and what came of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/backend.h"
#include "ops/cuda/elements.h"
#include "ops/kernels.h"
#include "planted.h"
#include "runtime/device/device_stream.h"

namespace troupe::testing {

inline const Shape shape{planted_count};
inline constexpr std::uint64_t seeds = 50;

/// Each third seed holds work back as long as can be.
inline cuda_on_cpu::EmulationOptions drawn(std::uint64_t seed) {
  return {.seed = seed,
          .pace = seed % 3 == 0 ? cuda_on_cpu::Pace::lazy : cuda_on_cpu::Pace::thread};
}

inline Tensor on_cpu_filled(float value) {
  Tensor tensor = Tensor::empty(shape, DType::f32, Device::cpu());
  std::fill_n(tensor.data<float>(), planted_count, value);
  return tensor;
}
inline std::vector<float> values(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + planted_count};
}
inline Tensor doubled(const Stream& stream, const Tensor& x) {
  Tensor y = cuda::result_like(stream, x);
  doubles(stream, cuda::input<float>(stream, x), cuda::output<float>(stream, y));
  return y;
}
inline const KernelTable& table(const Stream& stream) { return kernels(stream.device, DType::f32); }

/// Waits for the thread that ends fences.
inline Status end_of(const WorkPtr& fence) {
  std::promise<Status> ended;
  std::future<Status> status = ended.get_future();
  fence->then([&](const Status& how) { ended.set_value(how); });
  if (status.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    ADD_FAILURE() << "a fence does not end";
    std::abort();  // it still knows the promise
  }
  return status.get();
}

}  // namespace troupe::testing

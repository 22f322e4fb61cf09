#pragma once
// What the emulator of tests/cuda takes CUDA to do, as tests whose source runs on both: on the
// emulator in every build, and on a GPU as part of cuda_device_tests. A test that fails on a GPU
// says what the emulator gets wrong.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstddef>
#include <future>

#include "emulator/violations.h"

namespace troupe::testing {

/// A stream of CUDA's own.
class RawStream {
 public:
  RawStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~RawStream() { cudaStreamDestroy(stream_); }
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

class RawEvent {
 public:
  explicit RawEvent(unsigned flags = cudaEventDisableTiming) {
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, flags), cudaSuccess);
  }
  ~RawEvent() { cudaEventDestroy(event_); }
  RawEvent(const RawEvent&) = delete;
  RawEvent& operator=(const RawEvent&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaEvent_t event_ = nullptr;
};

/// Memory of the device or pinned memory of the host.
template <auto allocate, auto release>
class RawMemory {
 public:
  explicit RawMemory(std::size_t bytes) {
    EXPECT_EQ(allocate(reinterpret_cast<void**>(&begin_), bytes), cudaSuccess);
  }
  ~RawMemory() { release(begin_); }
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;
  int* get() const { return begin_; }
  int& operator[](std::size_t i) const { return begin_[i]; }

 private:
  int* begin_ = nullptr;
};
inline cudaError_t allocate_on_device(void** block, std::size_t bytes) {
  return cudaMalloc(block, bytes);
}
inline cudaError_t allocate_pinned(void** block, std::size_t bytes) {
  return cudaMallocHost(block, bytes);
}
using DeviceInts = RawMemory<allocate_on_device, cudaFree>;
using PinnedInts = RawMemory<allocate_pinned, cudaFreeHost>;

/// Holds a stream's work back until it is opened.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : opened_(open_.get_future()) {
    EXPECT_EQ(cudaLaunchHostFunc(stream, wait, this), cudaSuccess);
  }
  ~Gate() {
    if (!is_open_) open();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  /// Returns when the stream has left the gate, so that the gate may be destroyed.
  void open() {
    is_open_ = true;
    open_.set_value();
    left_.get_future().wait();
  }

 private:
  static void CUDART_CB wait(void* self) {
    auto& gate = *static_cast<Gate*>(self);
    gate.opened_.wait();
    gate.left_.set_value();
  }
  std::promise<void> open_, left_;
  std::future<void> opened_;
  std::atomic<bool> is_open_ = false;
};

class Contract : public ::testing::Test {
 protected:
  ~Contract() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_THAT(cuda_on_cpu::take_violations(), ::testing::IsEmpty());
  }
};

}  // namespace troupe::testing

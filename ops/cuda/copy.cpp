// Copies within the device's memory, and between it and the CPU's by way of pinned memory: CUDA
// copies from and to other memory of the CPU only while the host waits. Tensors that lie in pinned
// memory are read in place. Kernels do not wait for what the host does at either end.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/error.h"
#include "ops/cuda/event.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/pinned.h"
#include "ops/cuda/stream.h"
#include "ops/gpu_sizes.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

/// Calls `f(offset, bytes)` for each piece of so many bytes.
template <class F>
void for_pieces(std::size_t bytes, F&& f) {
  for (std::size_t at = 0; at < bytes; at += copied_piece_bytes)
    f(at, std::min(copied_piece_bytes, bytes - at));
}

void copy_async(cudaStream_t stream, void* to, const void* from, std::size_t bytes,
                cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "copy memory");
}

/// The last step of a copy of some bytes to the CPU.
struct Arrival final : HostStep {
  Arrival(const Tensor& target, std::size_t at, std::size_t size)
      : to(target), offset(at), bytes(size), pinned(size) {}
  bool try_run() override {
    const cudaError_t status = copied.query();
    if (status == cudaSuccess) std::memcpy(to.raw() + offset, pinned.data(), bytes);
    return status != cudaErrorNotReady;
  }
  bool is_long() const override { return bytes > 1 << 16; }
  Tensor to;
  std::size_t offset, bytes;
  Pinned pinned;
  Event copied;
};

/// Holds a tensor until the device has copied it.
struct Departure final : HostStep {
  explicit Departure(const Tensor& source) : from(source) {}
  bool try_run() override { return copied.query() != cudaErrorNotReady; }
  Tensor from;
  Event copied;
};

void from_pinned(const Stream& stream, const Tensor& from, const Tensor& to) {
  const cudaStream_t given = native(stream);
  const auto departure = std::make_shared<Departure>(from);
  copy_async(given, to.raw(), from.raw(), from.bytes(), cudaMemcpyHostToDevice);
  try {
    departure->copied = Event::record(given);
    add_host_step(stream, departure);
  } catch (...) {
    cudaStreamSynchronize(given);  // it reads the tensor
    throw;
  }
}

void from_cpu(const Stream& stream, const Tensor& from, const Tensor& to) {
  check_not_capturing(stream, "a copy from the CPU's memory");
  note_use(stream, to);
  if (is_pinned(from)) return from_pinned(stream, from, to);
  const cudaStream_t given = native(stream);
  for_pieces(from.bytes(), [&](std::size_t at, std::size_t bytes) {
    Pinned pinned(bytes);
    std::memcpy(pinned.data(), from.raw() + at, bytes);
    copy_async(given, to.raw() + at, pinned.data(), bytes, cudaMemcpyHostToDevice);
    std::move(pinned).give_back_after(given);
  });
}

void to_cpu(const Stream& stream, const Tensor& from, const Tensor& to) {
  check_not_capturing(stream, "a copy to the CPU's memory");
  note_use(stream, from);
  const cudaStream_t given = native(stream);
  for_pieces(from.bytes(), [&](std::size_t at, std::size_t bytes) {
    const auto arrival = std::make_shared<Arrival>(to, at, bytes);
    copy_async(given, arrival->pinned.data(), from.raw() + at, bytes, cudaMemcpyDeviceToHost);
    try {
      arrival->copied = Event::record(given);
      const bool is_last = at + bytes == from.bytes();
      add_host_step(stream, arrival, is_last ? nullptr : &arrival->copied);
    } catch (...) {
      cudaStreamSynchronize(given);  // it uses the pinned memory
      throw;
    }
  });
}

void within(const Stream& stream, const Tensor& from, const Tensor& to) {
  note_use(stream, from);
  note_use(stream, to);
  copy_async(native(stream), to.raw(), from.raw(), from.bytes(), cudaMemcpyDeviceToDevice);
}

}  // namespace

void copy(const Stream& stream, const Tensor& from, Tensor& to) {
  if (from.shape() != to.shape() || from.layout() != to.layout())
    throw Error(ErrorCode::internal, "copy: shapes or layouts differ");
  if (from.bytes() == 0) return;
  const bool comes = from.device() == Device::cpu(), goes = to.device() == Device::cpu();
  if (from.dtype() != to.dtype()) {  // converted where both types can be
    if (!comes) {
      if (!goes) return convert(stream, from, to);
      Tensor converted = result(stream, from.shape(), to.dtype(), from.layout());
      convert(stream, from, converted);
      return to_cpu(stream, converted, to);
    }
    Tensor arrived = result(stream, from.shape(), from.dtype(), from.layout());
    from_cpu(stream, from, arrived);
    return convert(stream, arrived, to);
  }
  if (comes) return from_cpu(stream, from, to);
  if (goes) return to_cpu(stream, from, to);
  within(stream, from, to);
}

}  // namespace troupe::cuda

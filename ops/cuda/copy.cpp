// Copies within the device's memory, and between it and the CPU's by way of pinned memory: CUDA
// copies from and to other memory of the CPU only while the host waits.

#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>

#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/error.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/pinned.h"
#include "ops/cuda/stream.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

void copy_async(const Stream& stream, void* to, const void* from, std::size_t bytes,
                cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, bytes, kind, native(stream)), "copy memory");
}

/// What a host function does in the order of a stream; it owns itself.
class Later {
 public:
  virtual ~Later() = default;
  virtual void run() = 0;

  static void give(const Stream& stream, std::unique_ptr<Later> later) {
    const cudaStream_t given = native(stream);
    const cudaError_t status = cudaLaunchHostFunc(given, call, later.get());
    if (status == cudaSuccess) {
      (void)later.release();  // it owns itself now
      return;
    }
    cudaStreamSynchronize(given);  // the copy before it uses what is freed here
    check(status, "call the host");
  }

 private:
  static void CUDART_CB call(void* later) {
    std::unique_ptr<Later>(static_cast<Later*>(later))->run();
  }
};

/// The pinned memory is in use until then.
struct Keep final : Later {
  explicit Keep(Pinned memory) : pinned(std::move(memory)) {}
  void run() override {}
  Pinned pinned;
};

/// The last step of a copy to the CPU.
struct Arrive final : Later {
  Arrive(Pinned memory, Tensor target) : pinned(std::move(memory)), to(std::move(target)) {}
  void run() override { std::memcpy(to.raw(), pinned.data(), to.bytes()); }
  Pinned pinned;
  Tensor to;
};

void from_cpu(const Stream& stream, const Tensor& from, const Tensor& to) {
  Pinned pinned(from.bytes());
  std::memcpy(pinned.data(), from.raw(), from.bytes());
  note_use(stream, to);
  copy_async(stream, to.raw(), pinned.data(), from.bytes(), cudaMemcpyHostToDevice);
  Later::give(stream, std::make_unique<Keep>(std::move(pinned)));
}

void to_cpu(const Stream& stream, const Tensor& from, const Tensor& to) {
  Pinned pinned(from.bytes());
  note_use(stream, from);
  copy_async(stream, pinned.data(), from.raw(), from.bytes(), cudaMemcpyDeviceToHost);
  Later::give(stream, std::make_unique<Arrive>(std::move(pinned), to));
}

void within(const Stream& stream, const Tensor& from, const Tensor& to) {
  note_use(stream, from);
  note_use(stream, to);
  copy_async(stream, to.raw(), from.raw(), from.bytes(), cudaMemcpyDeviceToDevice);
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

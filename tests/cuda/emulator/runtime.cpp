// The functions of CUDA's runtime that ops/cuda calls, on Device.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "block.h"
#include "checker.h"
#include "device.h"
#include "emulation.h"
#include "properties.h"
#include "violations.h"

extern "C" void* __real_memcpy(void* to, const void* from, std::size_t bytes);

namespace cuda_on_cpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local std::uint64_t given = 0;

constexpr int compiled_for = 90;

// cudaErrorNotReady is an answer, no error.
cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

/// Checks the access of a copy to memory of the device or pinned memory; other memory has no
/// region.
void access_by_copy(const Operation& operation, const void* address, std::size_t bytes, Mode mode) {
  Memory& memory = Memory::get();
  if (!memory.contains(address)) return;
  if (Region* region = memory.find(address))
    Checker(operation).access(*region, address, bytes, mode);
}

/// With the memory's lock, and with a name for reports.
template <class F>
Task task_on_memory(const char* name, F f) {
  ++given;
  if (!Device::get().computes()) return {.run = [](const Operation&) {}};
  Task task{.run = [f = std::move(f)](const Operation& operation) {
    const std::lock_guard lock(Memory::get().mutex());
    remember_name(operation);
    f(operation);
  }};
  task.operation.name = name;
  return task;
}

// Only pinned memory can be copied while the host goes on.
bool is_pinned_or_device(const void* address, Place place) {
  Memory& memory = Memory::get();
  const std::lock_guard lock(memory.mutex());
  const Region* region = memory.contains(address) ? memory.find(address) : nullptr;
  return region && region->place == place;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  const Place reads = kind == cudaMemcpyHostToDevice ? Place::pinned : Place::device;
  const Place writes = kind == cudaMemcpyDeviceToHost ? Place::pinned : Place::device;
  if (!is_pinned_or_device(from, reads) || !is_pinned_or_device(to, writes)) {
    report("a copy is given memory that its kind does not name, or that is not pinned");
    return cudaErrorInvalidValue;
  }
  return Device::get().give(stream, task_on_memory("a copy", [=](const Operation& operation) {
                              access_by_copy(operation, from, bytes, Mode::read);
                              access_by_copy(operation, to, bytes, Mode::write);
                              __real_memcpy(to, from, bytes);
                            }));
}

cudaError_t fill(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return Device::get().give(stream, task_on_memory("a fill", [=](const Operation& operation) {
                              access_by_copy(operation, to, bytes, Mode::write);
                              std::memset(to, value, bytes);
                            }));
}

cudaError_t call_host(cudaStream_t stream, cudaHostFn_t function, void* data) {
  Task task{.run = [=](const Operation&) { function(data); }, .is_host_function = true};
  task.operation.name = "a host function";
  return Device::get().give(stream, std::move(task));
}

// What all devices since sm_70 take, and whole warps.
bool can_launch(dim3 blocks, dim3 threads) {
  const std::uint64_t in_block = std::uint64_t{threads.x} * threads.y * threads.z;
  return blocks.x > 0 && blocks.y > 0 && blocks.z > 0 && blocks.x <= 0x7fffffffu &&
         blocks.y <= 65535 && blocks.z <= 65535 && in_block > 0 && in_block <= 1024 &&
         threads.z <= 64 && in_block % 32 == 0;
}

// "troupe::cuda::relu (elementwise.cu:17)". It lives as long as the process.
const char* name_of_launch(const Where& where) {
  std::string_view function = where.function_name(), file = where.file_name();
  function = function.substr(0, function.find('('));
  function = function.substr(function.rfind(' ') + 1);
  std::string name =
      fmt::format("{} ({}:{})", function, file.substr(file.rfind('/') + 1), where.line());
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(std::move(name)).first->c_str();
}

}  // namespace

std::uint64_t given_by_thread() { return given; }

cudaError_t launch(cudaStream_t stream, dim3 blocks, dim3 threads, const Where& where,
                   Closure kernel) {
  const char* name = name_of_launch(where);
  if (!can_launch(blocks, threads)) {
    report(fmt::format("{}: {}x{}x{} blocks of {}x{}x{} threads", name, blocks.x, blocks.y,
                       blocks.z, threads.x, threads.y, threads.z));
    return answer(cudaErrorInvalidConfiguration);
  }
  const EmulationOptions options = Device::get().options();
  if (options.architecture / 10 != compiled_for / 10)
    return answer(cudaErrorNoKernelImageForDevice);
  std::size_t free_bytes = 0, all_bytes = 0;
  Memory::get().tell(&free_bytes, &all_bytes);
  if (free_bytes < options.code_bytes) return answer(cudaErrorMemoryAllocation);
  return answer(Device::get().give(
      stream, task_on_memory(name, [launch = Launch{blocks, threads, std::move(kernel)}](
                                       const Operation& operation) {
        run_grid(launch, operation, Device::get().draw_seed(), Device::get().checked_places());
      })));
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::answer;
using cuda_on_cpu::Place;

namespace {

cuda_on_cpu::Device& device() { return cuda_on_cpu::Device::get(); }

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

ErrorText text_of(cudaError_t error) {
  constexpr ErrorText texts[] = {
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
       "an illegal memory access was encountered"},
      {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
      {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
       "CUDA driver version is insufficient for CUDA runtime version"},
      {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
       "no kernel image is available for execution on the device"},
      {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable",
       "uncorrectable ECC error encountered"},
      {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"}};
  for (const ErrorText& known : texts)
    if (known.error == error) return known;
  return {error, "another error", "another error"};
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** block, std::size_t bytes) {
  return answer(device().allocate(block, bytes, Place::device));
}
cudaError_t CUDARTAPI cudaMallocHost(void** block, std::size_t bytes) {
  return answer(device().allocate(block, bytes, Place::pinned));
}
cudaError_t CUDARTAPI cudaFree(void* block) { return answer(device().free(block, Place::device)); }
cudaError_t CUDARTAPI cudaFreeHost(void* block) {
  return answer(device().free(block, Place::pinned));
}

cudaError_t CUDARTAPI cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  cuda_on_cpu::Memory::get().tell(free, total);
  return answer(device().status());
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking)
    cuda_on_cpu::report("a stream is made that waits for the null stream");
  return answer(device().create_stream(stream));
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  return answer(device().destroy_stream(stream));
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  return answer(device().wait(stream));
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return answer(device().wait_on_device(stream, event));
}
cudaError_t CUDARTAPI cudaDeviceSynchronize() { return answer(device().wait_for_all()); }

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (mode != cudaStreamCaptureModeRelaxed)
    cuda_on_cpu::report("a capture forbids other threads, or this one, to allocate memory");
  return answer(device().begin_capture(stream));
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return answer(device().end_capture(stream, graph));
}
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                           unsigned long long) {
  return answer(device().instantiate(executable, graph));
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return answer(device().launch(executable, stream));
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  return answer(device().destroy(reinterpret_cast<std::uintptr_t>(graph)));
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return answer(device().destroy(reinterpret_cast<std::uintptr_t>(executable)));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return answer(device().create_event(event, (flags & cudaEventDisableTiming) == 0));
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  return answer(device().destroy_event(event));
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return answer(device().record(event, stream));
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) { return answer(device().query(event)); }
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  return answer(device().wait(event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return answer(device().elapsed(milliseconds, from, to));
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return answer(cuda_on_cpu::copy(to, from, bytes, kind, stream));
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return answer(cuda_on_cpu::fill(to, value, bytes, stream));
}
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return answer(cuda_on_cpu::call_host(stream, function, data));
}

cudaError_t CUDARTAPI cudaGetDevice(int* index) {
  *index = 0;
  return answer(device().status());
}
cudaError_t CUDARTAPI cudaSetDevice(int index) {
  const cudaError_t error = device().status();
  return answer(error == cudaSuccess && index != 0 ? cudaErrorInvalidDevice : error);
}
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cuda_on_cpu::limits_of_an_h100();
  const int architecture = device().options().architecture;
  properties->major = architecture / 10;
  properties->minor = architecture % 10;
  properties->pciBusID = 1;
  return answer(device().status());
}
cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  *count = device().options().devices;
  return answer(device().status());
}
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = cudaComputeModeDefault;
  return answer(attribute == cudaDevAttrComputeMode ? device().status() : cudaErrorInvalidValue);
}
cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  const int driver = device().options().driver;
  *version = driver == 0 ? CUDART_VERSION : driver;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetLastError() {
  const cudaError_t sticky = device().status();
  return sticky != cudaSuccess ? sticky : std::exchange(cuda_on_cpu::last_error, cudaSuccess);
}
const char* CUDARTAPI cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* CUDARTAPI cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

}  // extern "C"

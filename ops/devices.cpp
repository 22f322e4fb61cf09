#include "ops/devices.h"

#include <fmt/format.h>

#include "ops/gpu_library.h"
#include "ops/on_device.h"
#include "runtime/device/own_stream.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe {
namespace {

Result<Device> look_for_gpu() {
  const Result<const GpuLibrary*> library = gpu_library();
  if (!library) return library.error();
  const Device device{library.value()->backend(), 0};
  try {
    device.backend->fingerprint();  // asks the driver
    const OwnStream stream({.device = device});
    zeros(stream.get(), {1}, DType::f32);  // and the device, for a kernel of its architecture
    synchronize(stream.get());
  } catch (const OutOfMemory& error) {  // for a few bytes
    return no_gpu(error.message(), "end the programs that use the GPU, or set `device` to cpu");
  } catch (const Error& error) {
    return no_gpu(error.message(), error.remedy());
  }
  return device;
}

}  // namespace

Error no_gpu(const std::string& reason, std::string remedy) {
  return {ErrorCode::unsupported, "no GPU can be used: " + reason, std::move(remedy)};
}

Result<Device> find_gpu() {
  static const Result<Device> found = look_for_gpu();
  return found;
}

Device choose_device(DeviceChoice choice, std::uint32_t processes) {
  if (choice == DeviceChoice::cpu) return Device::cpu();
  if (choice == DeviceChoice::automatic && processes > 1) return Device::cpu();
  const Result<Device> gpu = find_gpu();
  if (choice == DeviceChoice::cuda && !gpu) throw gpu.error();  // one process would not help
  if (processes > 1)
    throw Error(ErrorCode::unsupported,
                fmt::format("{} processes, but a run on a GPU has one process", processes),
                "start one process, or set `device` to cpu");
  return gpu ? gpu.value() : Device::cpu();
}

}  // namespace troupe

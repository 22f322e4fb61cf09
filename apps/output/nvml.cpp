// NVIDIA's management library, opened when it is needed: no program links it, and this one also
// runs without a driver. The declarations are those of nvml.h, a stable interface.
#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

#include "apps/output/gpu_usage.h"

namespace troupe {
namespace {

using NvmlReturn = int;  // 0: success
using NvmlDevice = void*;
struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent
};
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;  // bytes
};

/// The functions of the library that are used.
struct Nvml {
  NvmlReturn (*init)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*device_by_bus_id)(const char*, NvmlDevice*) = nullptr;
  NvmlReturn (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlReturn (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  NvmlReturn (*power)(NvmlDevice, unsigned*) = nullptr;  // milliwatts
};

class Counter final : public GpuCounter {
 public:
  Counter(const Nvml& nvml, NvmlDevice device) : nvml_(nvml), device_(device) {}

  GpuUsage read() override {
    GpuUsage usage;
    NvmlUtilization utilization;
    if (nvml_.utilization(device_, &utilization) == 0) usage.utilisation_percent = utilization.gpu;
    NvmlMemory memory;
    if (nvml_.memory(device_, &memory) == 0) {
      usage.memory_mib = static_cast<double>(memory.used) / 0x1p20;
      usage.all_memory_mib = static_cast<double>(memory.total) / 0x1p20;
    }
    unsigned milliwatts = 0;
    if (nvml_.power(device_, &milliwatts) == 0) usage.power_w = 1e-3 * milliwatts;
    return usage;
  }

 private:
  Nvml nvml_;
  NvmlDevice device_;
};

Error unavailable(std::string reason) {
  return {ErrorCode::unsupported, std::move(reason),
          "NVML comes with NVIDIA's driver; in a container, pass it in"};
}

}  // namespace

Result<std::unique_ptr<GpuCounter>> open_nvml(const std::string& pci_bus_id,
                                              const std::string& library) {
  void* file = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file) return unavailable(dlerror());
  Nvml nvml;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, name));
    return function != nullptr;
  };
  if (!find("nvmlInit_v2", nvml.init) || !find("nvmlErrorString", nvml.error_string) ||
      !find("nvmlDeviceGetHandleByPciBusId_v2", nvml.device_by_bus_id) ||
      !find("nvmlDeviceGetUtilizationRates", nvml.utilization) ||
      !find("nvmlDeviceGetMemoryInfo", nvml.memory) || !find("nvmlDeviceGetPowerUsage", nvml.power))
    return unavailable(fmt::format("{} lacks a function of NVML: {}", library, dlerror()));
  NvmlDevice device = nullptr;
  NvmlReturn status = nvml.init();
  if (status == 0) status = nvml.device_by_bus_id(pci_bus_id.c_str(), &device);
  if (status != 0)
    return unavailable(
        fmt::format("NVML cannot open the GPU {}: {}", pci_bus_id, nvml.error_string(status)));
  // Neither is ever closed: a thread may be in it when the process ends.
  return std::unique_ptr<GpuCounter>(std::make_unique<Counter>(nvml, device));
}

}  // namespace troupe

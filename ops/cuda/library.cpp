#include "ops/cuda/library.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "ops/cuda/backend.h"
#include "ops/cuda/dnn.h"
#include "ops/cuda/error.h"

namespace troupe::cuda {
namespace {

GpuSurvey::Gpu::Mode mode_of(int device) {
  int mode = cudaComputeModeDefault;
  check(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device), "ask for the compute mode");
  if (mode == cudaComputeModeProhibited) return GpuSurvey::Gpu::Mode::none;
  return mode == cudaComputeModeDefault ? GpuSurvey::Gpu::Mode::shared
                                        : GpuSurvey::Gpu::Mode::one_process;
}

GpuSurvey::Gpu gpu_of(int device) {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, device), "describe a device");
  return {.name = found.name,
          .architecture = 10 * found.major + found.minor,
          .memory_bytes = static_cast<std::int64_t>(found.totalGlobalMem),
          .pci_bus_id = fmt::format("{:08x}:{:02x}:{:02x}.0", found.pciDomainID, found.pciBusID,
                                    found.pciDeviceID),
          .mode = mode_of(device)};
}

GpuSurvey survey() {
  GpuSurvey seen = compiled_for();
  check(cudaRuntimeGetVersion(&seen.runtime), "query its version");
  check(cudaDriverGetVersion(&seen.driver), "query the driver's version");
  try {
    int count = 0;
    check(cudaGetDeviceCount(&count), "count the devices");
    for (int device = 0; device < count; ++device) seen.gpus.push_back(gpu_of(device));
  } catch (const Error& error) {
    seen.failure = error;
  }
  return seen;
}

std::size_t workspace_bytes(const ConvolutionWork& work, const DescribedDevice& on) {
  const auto plan = plan_convolution(work, &on);
  return plan ? plan->workspace_bytes() : 0;
}

}  // namespace

// CMAKE_CUDA_ARCHITECTURES, separated by spaces: "90-real" for kernels, "120-virtual" for PTX, "80"
// for both. Others, such as "native", do not say.
GpuSurvey compiled_for() {
  GpuSurvey compiled;
  std::istringstream words(TROUPE_CUDA_COMPILED_FOR);
  for (std::string word; words >> word;) {
    int architecture = 0;
    if (!(std::istringstream(word) >> architecture)) continue;
    if (!word.ends_with("-virtual")) compiled.architectures.push_back(architecture);
    if (!word.ends_with("-real"))
      compiled.ptx = compiled.ptx == 0 ? architecture : std::min(compiled.ptx, architecture);
  }
  std::ranges::sort(compiled.architectures);
  return compiled;
}

int compute_capability() {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, 0), "describe a device");
  return 10 * found.major + found.minor;
}

const GpuLibrary& library() {
  static constexpr GpuLibrary all{
      .backend = [] { return &backend(); }, .survey = survey, .workspace_bytes = workspace_bytes};
  return all;
}

}  // namespace troupe::cuda

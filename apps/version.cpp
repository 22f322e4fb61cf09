#include "apps/version.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>
#include <vector>

#include "apps/train/training.h"
#include "ops/backend.h"
#include "ops/gpu_library.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// "AMD EPYC 9654, "; empty where the system does not name its processor, as on aarch64.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2) + ", ";
  return {};
}

}  // namespace

std::string components_text() {
  utsname system{};
  ::uname(&system);
  return fmt::format("compiler: " TROUPE_COMPILER
                     "\n"
                     "libraries: " TROUPE_LIBRARIES
                     "\n"
                     "CPU: {}, {}",
                     static_cast<const char*>(system.machine),
                     backend(Device::cpu()).fingerprint());
}

std::string gpus_text() {
  const Result<const GpuLibrary*> library = gpu_library();
  if (!library)
    return fmt::format("CUDA: {}", library.error().code() == ErrorCode::io
                                       ? "not in this build"
                                       : library.error().message());
  const GpuSurvey seen = library.value()->survey();
  std::vector<std::string> gpus;
  for (const GpuSurvey::Gpu& gpu : seen.gpus) gpus.push_back(gpu.name);
  return fmt::format("CUDA: {}.{}, kernels for {}\nGPU: {}", seen.runtime / 1000,
                     seen.runtime % 1000 / 10, kernels_text(seen),
                     !gpus.empty()  ? listed(gpus)
                     : seen.failure ? "none: " + seen.failure->message()
                                    : "none");
}

std::string host_text() {
  utsname system{};
  ::uname(&system);
  return fmt::format("{}: {}{}, {}", static_cast<const char*>(system.nodename), processor_name(),
                     static_cast<const char*>(system.machine), counted(available_cores(), "core"));
}

}  // namespace troupe

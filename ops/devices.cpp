#include "ops/devices.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "ops/backend.h"
#include "ops/on_device.h"
#include "runtime/device/own_stream.h"

namespace troupe {
namespace {

constexpr const char* library_name = "libtroupe_cuda.so";

std::vector<std::string> places() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::string> result;
  for (const auto& folder : {program, program.parent_path() / "lib" / "troupe"})
    if (std::filesystem::exists(folder / library_name, ignored))
      result.push_back((folder / library_name).string());
  result.emplace_back(library_name);
  return result;
}

Error without(std::string reason, std::string remedy = "compute on the CPU, or build with CUDA") {
  return {ErrorCode::unsupported, "no GPU can be used: " + std::move(reason), std::move(remedy)};
}

/// Never closed: its backend lives as long as the process.
Result<void*> open_library() {
  if (const char* named = std::getenv("TROUPE_CUDA_LIBRARY"); named && *named) {
    if (void* library = dlopen(named, RTLD_NOW | RTLD_LOCAL)) return library;
    return without(fmt::format("TROUPE_CUDA_LIBRARY={}: {}", named, dlerror()),
                   "unset it, or name the library of this build");
  }
  std::string reason;
  for (const std::string& place : places()) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reason = dlerror();
    if (place != library_name) return without(reason);  // it is there and cannot be opened
  }
  return Error(ErrorCode::io, fmt::format("no GPU can be used: {}", reason),
               "compute on the CPU, or build with CUDA");
}

Result<Device> look_for_gpu() {
  const Result<void*> library = open_library();
  if (!library) return library.error();
  const auto version =
      reinterpret_cast<const char* (*)()>(dlsym(library.value(), "troupe_cuda_version"));
  const auto get =
      reinterpret_cast<const Backend* (*)()>(dlsym(library.value(), "troupe_cuda_backend"));
  if (!version || !get) return without(fmt::format("{} is no part of Troupe", library_name));
  if (std::string_view(version()) != TROUPE_VERSION)
    return without(fmt::format("{} is of Troupe {}, this program of {}", library_name, version(),
                               TROUPE_VERSION),
                   "build both together");
  const Device device{get(), 0};
  try {
    device.backend->fingerprint();  // asks the driver
    const OwnStream stream({.device = device});
    zeros(stream.get(), {1}, DType::f32);  // and the device, for a kernel of its architecture
    synchronize(stream.get());
  } catch (const Error& error) {
    return without(error.message(), error.remedy());
  }
  return device;
}

}  // namespace

Result<Device> find_gpu() {
  static const Result<Device> found = look_for_gpu();
  return found;
}

Device choose_device(DeviceChoice choice) {
  if (choice == DeviceChoice::cpu) return Device::cpu();
  const Result<Device> gpu = find_gpu();
  if (choice == DeviceChoice::cuda) return gpu.value();
  return gpu ? gpu.value() : Device::cpu();
}

}  // namespace troupe

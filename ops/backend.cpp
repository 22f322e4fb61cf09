#include "ops/backend.h"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "ops/cpu/backend.h"
#include "runtime/error.h"

namespace troupe {
namespace {

constexpr std::size_t kinds = 2;  // of Device::Kind

std::array<std::atomic<const Backend*>, kinds>& backends() {
  static std::array<std::atomic<const Backend*>, kinds> all{&cpu::backend()};
  return all;
}

Error unsupported(const std::string& what, Device device) {
  return Error(ErrorCode::unsupported,
               fmt::format("no {} on {} in this build", what, to_string(device)),
               "compute in f32 or f64 on the CPU");
}

}  // namespace

const Backend& backend(Device device) {
  const Backend* found = backends().at(static_cast<std::size_t>(device.kind)).load();
  if (!found) throw unsupported("backend", device);
  return *found;
}

void register_backend(Device::Kind kind, const Backend& backend, const DeviceMemory& memory) {
  CachingAllocator::provide(kind, memory);
  backends().at(static_cast<std::size_t>(kind)) = &backend;
}

const KernelTable& kernels(Device device, DType dtype) {
  const KernelTable* table = backend(device).kernels(dtype);
  if (!table) throw unsupported(fmt::format("kernels for {}", name_of(dtype)), device);
  return *table;
}

}  // namespace troupe

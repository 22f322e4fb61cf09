#include "foreign_device.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>

#include "guarded_memory.h"
#include "kernel_calls.h"
#include "ops/backend.h"

namespace troupe::testing {
namespace {

extern const Backend foreign;
constexpr Device device{&foreign, 0};

/// Kernels get what lies on their device, and allocate there what they return.
class Call {
 public:
  explicit Call(std::string_view kernel) : kernel_(kernel) {}

  void on(int argument, const Stream& stream) const { check(argument, stream.device); }
  void reads(int argument, const Tensor& tensor) const { check(argument, tensor.device()); }
  void writes(int argument, const Tensor& tensor) const { check(argument, tensor.device()); }
  void begin() { memory_.emplace(); }
  static void makes(const Tensor& result) {
    if (result.device() != device)
      throw std::runtime_error("a kernel has made a tensor on another device");
  }
  /// One of the two may lie in the CPU's memory.
  static void copy(DType table, const Stream& stream, const Tensor& from, Tensor& to) {
    Call call("copy");
    call.on(1, stream);
    call.reads(2, from.device() == Device::cpu() ? to : from);
    call.begin();
    kernels(Device::cpu(), table).copy(stream, from, to);
  }

 private:
  void check(int argument, Device found) const {
    if (found != device)
      throw std::runtime_error(fmt::format("{}: argument {} is on {}, not on the foreign device",
                                           kernel_, argument, to_string(found)));
  }

  std::string_view kernel_;
  std::optional<OpenedMemory> memory_;
};

CachingAllocator& allocator(std::int16_t) {
  static auto* allocator = new CachingAllocator(
      device, {.allocate = allocate_guarded, .release = [](void*, std::size_t) {}});
  return *allocator;
}

constexpr Backend foreign{
    .name = "foreign",
    .in_cpu_memory = true,
    .allocator = allocator,
    .kernels = KernelCalls<Call>::of,
    .multiplies = [](DType type) { return type == DType::f32; },
    .take_scratch = [](std::int16_t) { return backend(Device::cpu()).take_scratch(0); },
    .fingerprint = [] { return backend(Device::cpu()).fingerprint(); }};

}  // namespace

Device foreign_device() {
  watch_guarded_memory();
  return device;
}

}  // namespace troupe::testing

// A libnvidia-ml.so.1 without a driver: the functions of NVML that Troupe calls, for a GPU at
// 00000000:01:00.0 that is busy 75 % of the time, has 3 GiB in use and draws 250 W. FAKE_NVML in
// the environment: "no_driver" refuses to begin, "mig" tells no utilisation.

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr int success = 0, invalid_argument = 2, not_supported = 3, driver_not_loaded = 9;

bool is_set_to(std::string_view mode) {
  const char* set = std::getenv("FAKE_NVML");
  return set && set == mode;
}

int the_gpu = 0;

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return is_set_to("no_driver") ? driver_not_loaded : success; }
const char* nvmlErrorString(int status) {
  return status == driver_not_loaded ? "Driver Not Loaded" : "Invalid Argument";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (std::strcmp(bus_id, "00000000:01:00.0") != 0) return invalid_argument;
  *device = &the_gpu;
  return success;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
  if (device != &the_gpu) return invalid_argument;
  if (is_set_to("mig")) return not_supported;
  *rates = {75, 20};
  return success;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  constexpr unsigned long long gib = 1ULL << 30;
  if (device != &the_gpu) return invalid_argument;
  *memory = {16 * gib, 13 * gib, 3 * gib};
  return success;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (device != &the_gpu) return invalid_argument;
  *milliwatts = 250'000;
  return success;
}

}  // extern "C"

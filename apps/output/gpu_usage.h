#pragma once
// What the GPU of a run does, as its driver tells.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runtime/error.h"

namespace troupe {

/// A reading, or a summary of several. A value is missing if the driver does not report it, such as
/// the utilisation of a part of a GPU (MIG).
struct GpuUsage {
  std::optional<double> utilisation_percent;  ///< of the time, that a kernel ran
  std::optional<double> memory_mib;           ///< in use, also by other processes
  std::optional<double> power_w;
  std::optional<double> all_memory_mib = {};  ///< that the GPU has
};

/// Where readings come from. Used by one thread at a time.
class GpuCounter {
 public:
  virtual ~GpuCounter() = default;
  virtual GpuUsage read() = 0;
};

/// By NVML, the library that comes with NVIDIA's driver; it is opened by this name. `pci_bus_id` is
/// CUDA's ("00000000:3b:00.0"), since NVML numbers also the GPUs that the process does not see. An
/// error says why there are no readings.
Result<std::unique_ptr<GpuCounter>> open_nvml(const std::string& pci_bus_id,
                                              const std::string& library = "libnvidia-ml.so.1");

/// Takes readings on a thread of its own until it is destroyed, so that nothing waits for the
/// driver, which may not answer if the GPU is lost. Any thread may call it.
class GpuMeter {
 public:
  using OpenCounter = std::function<Result<std::unique_ptr<GpuCounter>>()>;

  /// `open` is called on the thread. Without a counter all figures are missing, and summary_line()
  /// says why. Returns after the first reading, so that the first rows have values, or after
  /// `patience`.
  explicit GpuMeter(OpenCounter open,
                    std::chrono::milliseconds period = std::chrono::milliseconds(250),
                    std::chrono::milliseconds patience = std::chrono::seconds(2));
  /// Waits for a reading that is under way, but no longer than `patience`: then its thread is left.
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  GpuUsage latest() const;
  /// Mean utilisation and power, and the most memory, of all readings.
  GpuUsage summary() const;
  /// "GPU: busy 87 % of the time, at most 12.1 of 79.6 GiB in use (also by other processes), 412
  /// W", or why nothing is known of it.
  std::string summary_line() const;

 private:
  struct Readings;

  std::chrono::milliseconds patience_;
  std::shared_ptr<Readings> readings_;  ///< also of the thread
  std::thread thread_;
};

}  // namespace troupe

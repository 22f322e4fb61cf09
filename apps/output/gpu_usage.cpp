#include "apps/output/gpu_usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/quiet_thread.h"

namespace troupe {

void GpuMeter::Mean::add(const std::optional<double>& value) {
  if (!value) return;
  sum += *value;
  ++count;
}

std::optional<double> GpuMeter::Mean::mean() const {
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

GpuMeter::GpuMeter(Result<std::unique_ptr<GpuCounter>> counter, std::chrono::milliseconds period) {
  if (!counter) {
    missing_ = counter.error().message();
    return;
  }
  counter_ = std::move(counter.value());
  measure();  // so that the first rows have values
  thread_ = quiet_thread([this, period] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, period, [this] { return done_; })) {
      lock.unlock();
      measure();
      lock.lock();
    }
  });
}

GpuMeter::~GpuMeter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void GpuMeter::measure() {
  const GpuUsage seen = counter_->read();
  const std::lock_guard lock(mutex_);
  latest_ = seen;
  utilisation_.add(seen.utilisation_percent);
  power_.add(seen.power_w);
  if (seen.memory_mib) most_memory_ = std::max(most_memory_.value_or(0), *seen.memory_mib);
}

GpuUsage GpuMeter::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

GpuUsage GpuMeter::summary() const {
  const std::lock_guard lock(mutex_);
  return {utilisation_.mean(), most_memory_, power_.mean()};
}

std::string GpuMeter::summary_line() const {
  if (!missing_.empty()) return "GPU: no usage data in train.csv: " + missing_;
  const GpuUsage seen = summary();
  std::vector<std::string> parts;
  if (seen.utilisation_percent)
    parts.push_back(fmt::format("busy {:.0f} % of the time", *seen.utilisation_percent));
  if (seen.memory_mib) parts.push_back(fmt::format("at most {:.0f} MiB in use", *seen.memory_mib));
  if (seen.power_w) parts.push_back(fmt::format("{:.0f} W", *seen.power_w));
  return parts.empty() ? "GPU: the driver reports neither utilisation, memory nor power"
                       : fmt::format("GPU: {}", fmt::join(parts, ", "));
}

}  // namespace troupe

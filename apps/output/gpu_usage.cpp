#include "apps/output/gpu_usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/quiet_thread.h"

namespace troupe {
namespace {

struct Mean {
  double sum = 0;
  int count = 0;
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum += *value;
    ++count;
  }
  std::optional<double> mean() const {
    return count == 0 ? std::nullopt : std::optional(sum / count);
  }
};

/// "at most 3.0 of 80.0 GiB".
std::string memory_text(double most_mib, const std::optional<double>& all_mib) {
  if (!all_mib) return fmt::format("at most {:.1f} GiB", most_mib / 1024);
  return fmt::format("at most {:.1f} of {:.1f} GiB", most_mib / 1024, *all_mib / 1024);
}

}  // namespace

struct GpuMeter::Readings {
  void take(const OpenCounter& open, std::chrono::milliseconds period) {
    const auto counter = open();
    std::unique_lock lock(mutex);
    if (!counter) missing = counter.error().message();
    while (counter && !done) {
      lock.unlock();
      const GpuUsage seen = counter.value()->read();
      lock.lock();
      add(seen);
      changed.notify_all();
      changed.wait_for(lock, period, [this] { return done; });
    }
    ended = true;
    changed.notify_all();
  }
  void add(const GpuUsage& seen) {
    ++count;
    missing.clear();
    latest = seen;
    utilisation.add(seen.utilisation_percent);
    power.add(seen.power_w);
    if (seen.all_memory_mib) all_memory = seen.all_memory_mib;
    if (seen.memory_mib) most_memory = std::max(most_memory.value_or(0), *seen.memory_mib);
  }

  std::string why_missing() {
    const std::lock_guard lock(mutex);
    return missing;
  }

  std::mutex mutex;  ///< of what follows
  std::condition_variable changed;
  std::string missing = "NVML has not responded";  ///< empty: nothing
  bool done = false, ended = false;
  int count = 0;
  GpuUsage latest;
  Mean utilisation, power;
  std::optional<double> most_memory, all_memory;
};

GpuMeter::GpuMeter(OpenCounter open, std::chrono::milliseconds period,
                   std::chrono::milliseconds patience)
    : patience_(patience), readings_(std::make_shared<Readings>()) {
  thread_ = quiet_thread(
      [readings = readings_, open = std::move(open), period] { readings->take(open, period); });
  std::unique_lock lock(readings_->mutex);
  readings_->changed.wait_for(lock, patience_,
                              [this] { return readings_->count > 0 || readings_->ended; });
}

GpuMeter::~GpuMeter() {
  std::unique_lock lock(readings_->mutex);
  readings_->done = true;
  readings_->changed.notify_all();
  const bool ended =
      readings_->changed.wait_for(lock, patience_, [this] { return readings_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

GpuUsage GpuMeter::latest() const {
  const std::lock_guard lock(readings_->mutex);
  return readings_->latest;
}

GpuUsage GpuMeter::summary() const {
  const std::lock_guard lock(readings_->mutex);
  return {readings_->utilisation.mean(), readings_->most_memory, readings_->power.mean(),
          readings_->all_memory};
}

std::string GpuMeter::summary_line() const {
  const GpuUsage seen = summary();
  if (const std::string missing = readings_->why_missing(); !missing.empty())
    return "GPU: no usage data in train.csv: " + missing;
  std::vector<std::string> parts;
  if (seen.utilisation_percent)
    parts.push_back(fmt::format("busy {:.0f} % of the time", *seen.utilisation_percent));
  if (seen.memory_mib)
    parts.push_back(memory_text(*seen.memory_mib, seen.all_memory_mib) +
                    " in use (also by other processes)");
  if (seen.power_w) parts.push_back(fmt::format("{:.0f} W", *seen.power_w));
  return parts.empty() ? "GPU: the driver reports neither utilisation, memory nor power"
                       : fmt::format("GPU: {}", fmt::join(parts, ", "));
}

}  // namespace troupe

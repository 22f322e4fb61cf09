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
  explicit Readings(std::unique_ptr<GpuCounter> from) : counter(std::move(from)) {}

  void take(std::chrono::milliseconds period) {
    std::unique_lock lock(mutex);
    do {
      lock.unlock();
      const GpuUsage seen = counter->read();
      lock.lock();
      add(seen);
      changed.notify_all();
    } while (!changed.wait_for(lock, period, [this] { return done; }));
    ended = true;
    changed.notify_all();
  }
  void add(const GpuUsage& seen) {
    ++count;
    latest = seen;
    utilisation.add(seen.utilisation_percent);
    power.add(seen.power_w);
    if (seen.all_memory_mib) all_memory = seen.all_memory_mib;
    if (seen.memory_mib) most_memory = std::max(most_memory.value_or(0), *seen.memory_mib);
  }

  const std::unique_ptr<GpuCounter> counter;  ///< of the thread
  std::mutex mutex;                           ///< of what follows
  std::condition_variable changed;
  bool done = false, ended = false;
  int count = 0;
  GpuUsage latest;
  Mean utilisation, power;
  std::optional<double> most_memory, all_memory;
};

GpuMeter::GpuMeter(Result<std::unique_ptr<GpuCounter>> counter, std::chrono::milliseconds period,
                   std::chrono::milliseconds patience)
    : patience_(patience) {
  if (!counter) {
    missing_ = counter.error().message();
    return;
  }
  readings_ = std::make_shared<Readings>(std::move(counter.value()));
  thread_ = quiet_thread([readings = readings_, period] { readings->take(period); });
  std::unique_lock lock(readings_->mutex);
  readings_->changed.wait_for(lock, patience_, [this] { return readings_->count > 0; });
}

GpuMeter::~GpuMeter() {
  if (!readings_) return;
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
  if (!readings_) return {};
  const std::lock_guard lock(readings_->mutex);
  return readings_->latest;
}

GpuUsage GpuMeter::summary() const {
  if (!readings_) return {};
  const std::lock_guard lock(readings_->mutex);
  return {readings_->utilisation.mean(), readings_->most_memory, readings_->power.mean(),
          readings_->all_memory};
}

std::string GpuMeter::summary_line() const {
  if (!missing_.empty()) return "GPU: no usage data in train.csv: " + missing_;
  const GpuUsage seen = summary();
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

#include "apps/output/process_usage.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "runtime/text.h"

namespace troupe {

namespace {

/// What getrusage gives may be that of the program that started this one, but the kernel may not
/// tell the other.
std::int64_t peak_memory_bytes(const rusage& used) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return std::int64_t{used.ru_maxrss} * 1024;
}

}  // namespace

ProcessUsage process_usage() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return std::chrono::duration<double>(static_cast<double>(time.tv_sec) +
                                         1e-6 * static_cast<double>(time.tv_usec));
  };
  return {.processor_time = seconds(used.ru_utime) + seconds(used.ru_stime),
          .peak_memory_bytes = peak_memory_bytes(used)};
}

std::string usage_line(const ProcessUsage& before, const ProcessUsage& after,
                       std::chrono::duration<double> wall, int cores, std::string_view of_whom) {
  const std::chrono::duration<double> computed = after.processor_time - before.processor_time;
  return fmt::format("{}{}used {:.1f} of {}; peak memory {} MiB", of_whom,
                     of_whom.empty() ? "" : " ", wall.count() > 0 ? computed / wall : 0.0,
                     counted(cores, "core"), after.peak_memory_bytes >> 20);
}

}  // namespace troupe

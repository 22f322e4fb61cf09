#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// What this process has used of its machine so far, with all of its threads.
struct ProcessUsage {
  std::chrono::duration<double> processor_time{};  ///< of the program and of the system for it
  std::int64_t peak_memory_bytes = 0;              ///< resident, the most since it started
};
ProcessUsage process_usage();

/// "used 1.8 of 2 cores; peak memory 412 MiB": the mean over a run of `wall`, and the peak at its
/// end. `of_whom`, if there is one, is the first word.
std::string usage_line(const ProcessUsage& before, const ProcessUsage& after,
                       std::chrono::duration<double> wall, int cores, std::string_view of_whom);

}  // namespace troupe

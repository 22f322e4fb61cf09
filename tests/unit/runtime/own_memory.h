#pragma once
#include <fstream>
#include <string>

namespace troupe::test {

/// A line of /proc/self/status, in KiB: "VmRSS", "VmHWM". 0 if there is none.
inline long own_memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == name + ":") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

}  // namespace troupe::test

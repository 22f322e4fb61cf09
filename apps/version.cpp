#include "apps/version.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>

#include "apps/train/training.h"
#include "ops/backend.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// "AMD EPYC 9654, "; empty where the system does not name its processor, as on aarch64.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2) + ", ";
  return {};
}

}  // namespace

std::string components_text() {
  utsname system{};
  ::uname(&system);
  return fmt::format("compiler: " TROUPE_COMPILER
                     "\n"
                     "libraries: " TROUPE_LIBRARIES
                     "\n"
                     "devices: CPU ({}, {}); no GPU",
                     static_cast<const char*>(system.machine),
                     backend(Device::cpu()).fingerprint());
}

std::string host_text() {
  utsname system{};
  ::uname(&system);
  return fmt::format("{}: {}{}, {}", static_cast<const char*>(system.nodename), processor_name(),
                     static_cast<const char*>(system.machine), counted(available_cores(), "core"));
}

}  // namespace troupe

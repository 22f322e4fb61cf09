// The machine as it is: /proc, sysfs and a few system calls.
#include "apps/doctor/machine.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "apps/allocated_gpus.h"
#include "ops/devices.h"
#include "runtime/control/job_file.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> features_of_processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::vector<std::string> features;
    for (std::string word; words >> word;) features.push_back(word);
    return features;
  }
  return {};
}

/// What the compiler was allowed to use everywhere, by the names of /proc/cpuinfo.
std::vector<std::string> features_compiled_for() {
  return {
#ifdef __SSE4_2__
      "sse4_2",
#endif
#ifdef __AVX__
      "avx",
#endif
#ifdef __AVX2__
      "avx2",
#endif
#ifdef __FMA__
      "fma",
#endif
#ifdef __BMI2__
      "bmi2",
#endif
#ifdef __AVX512F__
      "avx512f",
#endif
#ifdef __ARM_FEATURE_ATOMICS
      "atomics",
#endif
#ifdef __ARM_FEATURE_SVE
      "sve",
#endif
  };
}

/// By the magic numbers of statfs(2) and of the file systems' own headers.
std::string file_system_of(const std::string& path) {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return {};
  switch (static_cast<std::uint32_t>(found.f_type)) {
    case 0x0bd00bd0:
      return "lustre";
    case 0x6969:
      return "nfs";
    case 0x47504653:
      return "gpfs";
    case 0x19830326:
      return "beegfs";
    case 0x00c36400:
      return "ceph";
    case 0xff534d42:
    case 0xfe534d42:
      return "smb";
    case 0x5346414f:
      return "afs";
    case 0xaad7aaea:
      return "panfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794c7630:
      return "overlay";
    default:
      return "local";
  }
}

std::vector<Machine::Folder> folders_of(const Machine& machine) {
  const std::string home = machine.variable("HOME");
  std::vector<Machine::Folder> folders;
  const auto look = [&](const std::string& variable, const std::string& otherwise) {
    const std::string path = machine.has(variable) ? machine.variable(variable) : otherwise;
    if (path.empty()) return;
    // A folder that will be made is on the file system of the one it will be made in.
    fs::path at = path;
    std::error_code absent;
    while (variable != "TMPDIR" && !fs::exists(at, absent) && at.has_parent_path() &&
           at != at.parent_path())
      at = at.parent_path();
    folders.push_back({variable, path, file_system_of(at.string())});
  };
  look("TMPDIR", "/tmp");
  look("XDG_CACHE_HOME", {});
  if (machine.variable("CUDA_CACHE_DISABLE") != "1" && machine.gpus_of_node > 0)
    look("CUDA_CACHE_PATH", home.empty() ? "" : home + "/.nv/ComputeCache");
  for (const char* name : {"TRITON_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
                           "TORCH_EXTENSIONS_DIR", "MIOPEN_USER_DB_PATH"})
    look(name, {});
  return folders;
}

std::vector<Machine::Interface> interfaces_of_node() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<Machine::Interface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const auto same = [&](const auto& known) { return known.name == entry->ifa_name; };
    auto found = std::find_if(interfaces.begin(), interfaces.end(), same);
    if (found == interfaces.end())
      found = interfaces.insert(interfaces.end(),
                                {entry->ifa_name, (entry->ifa_flags & IFF_UP) != 0, false});
    if (entry->ifa_addr != nullptr &&
        (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6))
      found->has_address = true;
  }
  return interfaces;
}

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return Machine::unlimited;
  return limit.rlim_cur == RLIM_INFINITY ? Machine::unlimited : limit.rlim_cur;
}

/// The first number of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Thu …".
std::string nvidia_driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return {};
}

/// The driver has a folder for each.
int gpus_of_node() {
  std::error_code absent;
  const fs::directory_iterator folders("/proc/driver/nvidia/gpus", absent);
  return static_cast<int>(std::distance(begin(folders), end(folders)));
}

/// The error of a job file, for a world whose launcher passes neither key nor address.
std::optional<Error> rendezvous_error(const World& world, const Environment& environment) try {
  if (environment.has("TROUPE_JOB_KEY") && environment.has("TROUPE_COORDINATOR")) return {};
  const fs::path file = JobFile::of_run(environment, world.run_id).path();
  fs::path folder = fs::absolute(file).parent_path();
  std::error_code missing;
  while (!fs::exists(folder, missing) && folder.has_relative_path()) folder = folder.parent_path();
  if (fs::is_directory(folder, missing) && ::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return Error(ErrorCode::io,
               fmt::format("the job file {}, by which processes find each other, cannot be written",
                           file.string()),
               "set TROUPE_JOB_FILE to a path that all processes can write to");
} catch (const Error& error) {
  return error;
}

}  // namespace

std::string Machine::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

int Machine::allocated_gpus() const { return troupe::allocated_gpus(environment); }

bool Machine::has_usable_gpu() const {
  return cuda && !cuda->gpus.empty() && !gpu_error &&
         runs_on(*cuda, cuda->gpus.front().architecture);
}

Machine observe(bool tries_gpu) {
  Machine machine;
  const Environment environment = Environment::of_process();
  machine.environment = environment.variables();
  try {
    machine.world = world_from_environment(environment);
  } catch (const Error& error) {
    machine.world_error = error;
  }
  if (machine.world && machine.world->size > 1)
    machine.rendezvous_error = rendezvous_error(*machine.world, environment);
  utsname name{};
  if (::uname(&name) == 0) {
    machine.host = name.nodename;
    machine.architecture = name.machine;
  }
  machine.features = features_of_processor();
  machine.compiled_for = features_compiled_for();
  machine.affinity = static_cast<int>(usable_cpus().size());
  machine.quota = cpu_quota();
  const int allowed =
      machine.quota ? std::max(1, static_cast<int>(*machine.quota)) : machine.affinity;
  machine.cores = machine.world ? core_share(*machine.world, environment).threads
                                : std::min(machine.affinity, allowed);
  machine.node_cores = machine.world ? node_cores(*machine.world, environment) : machine.cores;
  machine.nvidia_driver = nvidia_driver();
  machine.gpus_of_node = gpus_of_node();
  if (const auto library = gpu_library())
    machine.cuda = library.value()->survey();
  else
    machine.cuda_error = library.error();
  const bool computes_alone = !machine.world || machine.world->size < 2;
  if (tries_gpu && computes_alone && machine.has_usable_gpu())
    if (const auto gpu = find_gpu(); !gpu) machine.gpu_error = gpu.error();
  machine.folders = folders_of(machine);
  machine.interfaces = interfaces_of_node();
  machine.open_files = limit_of(RLIMIT_NOFILE);
  machine.locked_memory = limit_of(RLIMIT_MEMLOCK);
  timex clock{};
  const int state = ::adjtimex(&clock);
  machine.clock_synchronised = state < 0 || (clock.status & STA_UNSYNC) == 0;
  return machine;
}

}  // namespace troupe

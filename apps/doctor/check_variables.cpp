// Variables that are misspelt, or that do not go together.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/doctor/checks.h"
#include "apps/doctor/known_variables.h"
#include "runtime/world/cores.h"

namespace troupe {
namespace {

constexpr const char* check_name = "variables";

/// Whether a variable is set to a true value.
bool on(const Machine& machine, const char* name) {
  const std::string value = machine.variable(name);
  return !value.empty() && value != "0" && value != "false" && value != "FALSE";
}

std::string assignment(const Machine& machine, const std::string& name) {
  return name + "=" + machine.variable(name).substr(0, 60);
}

class Report {
 public:
  explicit Report(const Machine& machine) : machine_(machine) {}

  void add(Finding::Severity severity, const std::string& message, const std::string& remedy) {
    findings_.push_back({severity, check_name, message, remedy});
  }
  void warn(const std::string& message, const std::string& remedy) {
    add(Finding::Severity::warning, message, remedy);
  }
  Findings take() { return std::move(findings_); }

  std::string show(const std::string& name) const { return assignment(machine_, name); }

 private:
  const Machine& machine_;
  Findings findings_;
};

void check_nccl(const Machine& machine, Report& report) {
  for (const char* name : {"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"})
    if (const std::string value = machine.variable(name);
        !value.empty() && value.find_first_not_of("0123456789") != std::string::npos)
      report.warn(fmt::format("{} is not a number: NCCL ignores it", report.show(name)),
                  fmt::format("{}=1, or unset it", name));
  if (on(machine, "NCCL_IB_DISABLE") && machine.variable("NCCL_NET") == "IB")
    report.add(machine.nccl ? Finding::Severity::error : Finding::Severity::warning,
               "NCCL_NET=IB selects InfiniBand, which NCCL_IB_DISABLE=1 disables", "unset one");
  if (on(machine, "NCCL_IB_DISABLE") && machine.has("NCCL_IB_HCA"))
    report.warn(fmt::format("{} has no effect with NCCL_IB_DISABLE=1", report.show("NCCL_IB_HCA")),
                "unset one");
  if (on(machine, "NCCL_P2P_DISABLE") && machine.has("NCCL_P2P_LEVEL"))
    report.warn(
        fmt::format("{} has no effect with NCCL_P2P_DISABLE=1", report.show("NCCL_P2P_LEVEL")),
        "unset one");
  if (machine.variable("NCCL_NET") == "Socket" && machine.has("NCCL_NET_GDR_LEVEL"))
    report.warn(
        "NCCL_NET_GDR_LEVEL has no effect with NCCL_NET=Socket, which never reads GPU memory",
        "unset NCCL_NET_GDR_LEVEL, or NCCL_NET to let NCCL choose");
  const bool low = machine.variable("NCCL_PROTO").find("LL128") != std::string::npos &&
                   machine.variable("NCCL_PROTO")[0] != '^';
  const bool slingshot = std::any_of(machine.interfaces.begin(), machine.interfaces.end(),
                                     [](const auto& i) { return i.name.starts_with("hsn"); });
  if (low && slingshot && machine.architecture == "aarch64")
    report.warn(fmt::format("{} on Slingshot with GH200 corrupts data", report.show("NCCL_PROTO")),
                "NCCL_PROTO=^LL128");
  if (on(machine, "TORCH_NCCL_BLOCKING_WAIT") && on(machine, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    report.warn(
        "TORCH_NCCL_BLOCKING_WAIT and TORCH_NCCL_ASYNC_ERROR_HANDLING are both on; PyTorch "
        "ignores the second",
        "unset TORCH_NCCL_BLOCKING_WAIT");
  if (on(machine, "MPICH_GPU_SUPPORT_ENABLED") &&
      (machine.has("NCCL_NET") || machine.has("NCCL_SOCKET_IFNAME")))
    report.warn("MPICH_GPU_SUPPORT_ENABLED=1 can deadlock with NCCL",
                "MPICH_GPU_SUPPORT_ENABLED=0");
}

void check_fabric(const Machine& machine, Report& report) {
  const std::string provider = machine.variable("FI_PROVIDER");
  const auto cxi = std::find_if(machine.environment.begin(), machine.environment.end(),
                                [](const auto& v) { return v.first.starts_with("FI_CXI_"); });
  if (!provider.empty() && provider != "cxi" && provider[0] != '^' &&
      cxi != machine.environment.end())
    report.warn(fmt::format("{} leaves {} without effect", report.show("FI_PROVIDER"), cxi->first),
                "FI_PROVIDER=cxi, or unset the FI_CXI variables");
}

void check_devices(const Machine& machine, Report& report) {
  if (on(machine, "CUDA_CACHE_DISABLE") && machine.has("CUDA_CACHE_PATH"))
    report.warn("CUDA_CACHE_PATH has no effect with CUDA_CACHE_DISABLE=1", "unset one");
  if (on(machine, "CUDA_LAUNCH_BLOCKING"))
    report.warn("CUDA_LAUNCH_BLOCKING=1 makes every kernel wait for the previous one",
                "unset it after debugging");
}

void check_openmp(const Machine& machine, Report& report) {
  if (const std::string threads = machine.variable("OMP_NUM_THREADS");
      !threads.empty() && !openmp_threads(threads))
    report.warn(
        fmt::format("{} is not a number: OpenMP ignores it", report.show("OMP_NUM_THREADS")),
        "OMP_NUM_THREADS=1, or unset it");
  const std::string bind = machine.variable("OMP_PROC_BIND");
  if ((bind == "false" || bind == "FALSE") && machine.has("OMP_PLACES"))
    report.warn("OMP_PLACES has no effect with OMP_PROC_BIND=false", "OMP_PROC_BIND=close");
  if (machine.has("GOMP_CPU_AFFINITY") && machine.has("OMP_PLACES"))
    report.warn("OMP_PLACES and GOMP_CPU_AFFINITY both place threads", "unset GOMP_CPU_AFFINITY");
}

/// All of torchrun's variables or none: with some of them, processes wait for ranks that do not
/// exist.
void check_torchrun(const Machine& machine, Report& report) {
  constexpr auto names = std::to_array<const char*>({"RANK", "WORLD_SIZE"});
  std::string present, missing;
  for (const char* name : names) {
    std::string& list = machine.variable(name).empty() ? missing : present;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  if (!present.empty() && !missing.empty() && !machine.world_error)
    report.add(Finding::Severity::error, fmt::format("{} is set, but {} is not", present, missing),
               "let a launcher set both (srun, troupe launch or torchrun), or unset them");
}

}  // namespace

Findings check_misspelt(const Machine& machine) {
  Findings findings;
  for (const auto& [name, value] : machine.environment) {
    const auto known = mistaken_variables();
    const auto mistake =
        std::find_if(known.begin(), known.end(),
                     [&, &wanted = name](const auto& entry) { return entry.wrong == wanted; });
    const bool listed = mistake != known.end();
    const auto meant = listed ? std::string(mistake->right) : meant_variable(name).value_or("");
    if (meant.empty()) {
      if (is_unknown_of_ours(name))
        findings.push_back({Finding::Severity::warning, check_name,
                            fmt::format("nothing reads {}", name),
                            "give options in the options file or as -r KEY=VALUE"});
      continue;
    }
    const std::string why = listed ? fmt::format(" ({})", mistake->why) : "";
    const bool set_too = machine.has(meant);
    findings.push_back({Finding::Severity::warning, check_name,
                        fmt::format("nothing reads {}{}", name, why),
                        set_too ? fmt::format("unset it; {} is set as well", meant)
                                : fmt::format("write {}", meant)});
  }
  return findings;
}

Findings check_contradictions(const Machine& machine) {
  Report report(machine);
  check_torchrun(machine, report);
  check_nccl(machine, report);
  check_fabric(machine, report);
  check_devices(machine, report);
  check_openmp(machine, report);
  return report.take();
}

}  // namespace troupe

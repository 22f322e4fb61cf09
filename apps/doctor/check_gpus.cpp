// GPUs: whether a run here can use them, and whether it leaves any idle.
#include <fmt/format.h>

#include "apps/doctor/checks.h"
#include "apps/error_wording.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Severity = Finding::Severity;

/// "13.0" of 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class GpuChecks {
 public:
  GpuChecks(const Machine& machine, const Demands& demands)
      : machine_(machine), demands_(demands), allocated_(machine.allocated_gpus()) {}

  Findings take() {
    if (demands_.device == DeviceChoice::cpu)
      check_choice_of_cpu();
    else if (is_of_interest())
      check_use();
    check_effect();
    return std::move(findings_);
  }

 private:
  bool asked() const { return demands_.device == DeviceChoice::cuda; }
  bool is_built_with_cuda() const {
    const auto& error = machine_.cuda_error;
    return machine_.cuda || (error && error->code() != ErrorCode::io);
  }
  bool is_of_interest() const {
    return asked() || is_built_with_cuda() || allocated_ > 0 || machine_.gpus_of_node > 0;
  }
  /// "2 allocated GPUs", or, where no queue says so, those of the node.
  std::string gpus() const {
    return allocated_ > 0 ? counted(allocated_, "allocated GPU")
                          : counted(machine_.gpus_of_node, "GPU") + " of this node";
  }
  std::string idle() const {
    if (allocated_ == 0 && machine_.gpus_of_node == 0) return {};
    const bool one = allocated_ == 1 || (allocated_ == 0 && machine_.gpus_of_node == 1);
    return fmt::format(": {} stay{} idle", gpus(), one ? "s" : "");
  }
  void warn(std::string message, std::string remedy) {
    findings_.push_back({Severity::warning, "GPUs", std::move(message), std::move(remedy)});
  }
  /// What keeps runs from a GPU: those that demand one fail, others compute on the CPU.
  void refuse(const std::string& message, std::string remedy, bool of_process = false) {
    findings_.push_back({asked() ? Severity::error : Severity::warning, "GPUs", message + idle(),
                         std::move(remedy), of_process});
  }

  void refuse(const Error& error) {
    const Error worded = in_words_of_the_command(error);
    refuse(worded.message(), worded.remedy());
  }

  void check_effect() {
    if (computes_on_gpu(machine_, demands_)) return;
    if (demands_.tf32)
      warn("conv_precision or matmul_precision tf32 has no effect on the CPU",
           "-r conv_precision=ieee -r matmul_precision=ieee, or a GPU");
    if (demands_.cuda_graphs)
      warn("cuda_graphs has no effect on the CPU", "-r cuda_graphs=false, or a GPU");
    if (demands_.resident)
      warn("data.resident has no effect on the CPU", "-r data.resident=false, or a GPU");
    if (demands_.nondeterministic)
      warn("deterministic false has no effect on the CPU", "-r deterministic=true, or a GPU");
  }

  void check_choice_of_cpu() {
    if (allocated_ > 0)
      warn("the option device is cpu" + idle(), "-r device=auto, or use CPU nodes");
  }

  void check_use() {
    if (!machine_.cuda) return check_library();
    if (!check_driver() || !check_visible()) return;
    if (check_processes() && !asked()) return;
    check_kernels();
    check_mode();
    if (machine_.gpu_error && findings_.empty()) refuse(*machine_.gpu_error);
    check_idle();
    check_tf32();
  }

  void check_library() {
    if (is_built_with_cuda()) return refuse(*machine_.cuda_error);
    refuse(machine_.nvidia_driver.empty()
               ? "this build has no CUDA, and this host has no NVIDIA driver"
               : "this build has no CUDA",
           fmt::format("build it with ./dev build --cuda, or {}",
                       asked() ? "-r device=cpu" : "use CPU nodes"));
  }

  bool check_driver() {
    const GpuSurvey& cuda = *machine_.cuda;
    if (cuda.driver == 0) {
      refuse("no NVIDIA driver was found", "use a GPU node, or -r device=cpu");
      return false;
    }
    if (cuda.driver / 1000 >= cuda.runtime / 1000) return true;
    refuse(fmt::format("the driver supports CUDA up to {}, but this troupe is built with CUDA {}",
                       version_text(cuda.driver), version_text(cuda.runtime)),
           in_words_of_the_command(fit_driver(cuda.runtime, cuda.driver)));
    return false;
  }

  bool check_visible() {
    const GpuSurvey& cuda = *machine_.cuda;
    if (!cuda.gpus.empty()) return true;
    if (machine_.has("CUDA_VISIBLE_DEVICES") && (allocated_ > 0 || machine_.gpus_of_node > 0))
      refuse(fmt::format("CUDA_VISIBLE_DEVICES={} hides all GPUs",
                         machine_.variable("CUDA_VISIBLE_DEVICES")),
             "unset CUDA_VISIBLE_DEVICES", true);
    else if (cuda.failure)
      refuse(*cuda.failure);
    else
      refuse("CUDA shows no GPU", "ask the scheduler for a GPU");
    return false;
  }

  void check_kernels() {
    const GpuSurvey& cuda = *machine_.cuda;
    const GpuSurvey::Gpu& gpu = cuda.gpus.front();
    if (runs_on(cuda, gpu.architecture)) return;
    refuse(fmt::format(
               "{} has compute capability {}.{} (sm_{}), but this troupe has kernels for {} only",
               gpu.name, gpu.architecture / 10, gpu.architecture % 10, gpu.architecture,
               kernels_text(cuda)),
           build_for(gpu.architecture));
  }

  void check_mode() {
    const GpuSurvey::Gpu& gpu = machine_.cuda->gpus.front();
    if (gpu.mode == GpuSurvey::Gpu::Mode::none)
      refuse(fmt::format("{} is in compute mode Prohibited", gpu.name),
             "ask the administrators, or use another GPU (CUDA_VISIBLE_DEVICES)");
    else if (gpu.mode == GpuSurvey::Gpu::Mode::one_process && machine_.processes() > 1)
      refuse(fmt::format("{} is in compute mode Exclusive_Process, but {} would use it", gpu.name,
                         counted(machine_.processes(), "process")),
             "start one process: stages and replicas share a GPU within it");
  }

  /// Whether there are several, of which a run that may choose computes on the CPU.
  bool check_processes() {
    if (!machine_.world || machine_.world->size < 2 || !machine_.has_usable_gpu()) return false;
    refuse(fmt::format("{}, but a run on a GPU has one process",
                       counted(machine_.world->size, "process")),
           "start one process, or -r device=cpu");
    return true;
  }

  void check_idle() {
    if (allocated_ < 2) return;
    const bool parts = machine_.cuda->gpus.front().name.find("MIG") != std::string::npos;
    warn(fmt::format("{}, but a run uses one{}: {} stay{} idle",
                     counted(allocated_, "allocated GPU"),
                     parts ? ", as CUDA shows a process one MIG instance" : "", allocated_ - 1,
                     allocated_ == 2 ? "s" : ""),
         "--gpus-per-node=1");
  }

  void check_tf32() {
    const std::string value = machine_.variable("NVIDIA_TF32_OVERRIDE");
    if (value == "1")
      warn("NVIDIA_TF32_OVERRIDE=1 makes f32 products use TF32, whatever the options say",
           "unset NVIDIA_TF32_OVERRIDE");
    else if (value == "0" && demands_.tf32)
      warn("NVIDIA_TF32_OVERRIDE=0 forbids the TF32 that the options allow",
           "unset NVIDIA_TF32_OVERRIDE");
  }

  const Machine& machine_;
  const Demands& demands_;
  int allocated_;
  Findings findings_;
};

}  // namespace

bool computes_on_gpu(const Machine& machine, const Demands& demands) {
  const bool one_process = !machine.world || machine.world->size < 2;
  return demands.device == DeviceChoice::cuda ||
         (demands.device == DeviceChoice::automatic && one_process && machine.has_usable_gpu());
}

Findings check_gpus(const Machine& machine, const Demands& demands) {
  return GpuChecks(machine, demands).take();
}

}  // namespace troupe

#include "apps/plan/planned_gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>
#include <set>

#include "actors/block_costs.h"
#include "actors/pipeline_bytes.h"
#include "apps/output/slow_notice.h"
#include "ops/backend.h"
#include "ops/gpu_library.h"
#include "ops/planned_device.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// Of the convolutions of a model on one GPU, of which many are alike: cuDNN, if this build has it,
/// takes a while to answer.
class Workspaces {
 public:
  Workspaces(const GpuLibrary* library, const DescribedDevice& on) : library_(library), on_(on) {}

  std::size_t bytes(const ConvolutionWork& work) {
    misses_ = misses_ || (!library_ && work.dtype != DType::f64);
    if (!library_) return 0;
    const auto [known, is_new] = known_.try_emplace(work);
    if (is_new) known->second = library_->workspace_bytes(work, on_);
    return known->second;
  }
  /// Whether it was asked for some of cuDNN's without cuDNN.
  bool misses() const { return misses_; }

 private:
  const GpuLibrary* library_;
  const DescribedDevice& on_;
  bool misses_ = false;
  std::map<ConvolutionWork, std::size_t> known_;
};

/// The samples to run of a micro-batch of so many: the kernels that the CPU computes take time and
/// memory. A power of two divides without a rest.
std::int64_t samples_to_run(std::int64_t samples, const Shape& sample) {
  constexpr std::int64_t most = 32, least = 2;  // a batch norm needs two values
  constexpr std::int64_t most_elements = std::int64_t{1} << 21;
  const std::int64_t fit = most_elements / std::max<std::int64_t>(sample.element_count(), 1);
  const auto run = static_cast<std::uint64_t>(std::clamp(fit, least, most));
  return std::min(samples, static_cast<std::int64_t>(std::bit_floor(run)));
}

/// Returns whether cuDNN's workspaces are missing.
bool compute_bytes(const GpuLibrary* library, const DescribedDevice& described,
                   const Stream& wanted, PipelineOptions& pipeline) {
  const auto samples = static_cast<std::int64_t>(micro_batch_samples(pipeline));
  const std::int64_t run = samples_to_run(samples, pipeline.data.dataset.samples().shape);
  Workspaces workspaces(library, described);
  pipeline.stream.device = planned_device(
      {.title = described.title,
       .workspace_bytes = [&](const ConvolutionWork& work) { return workspaces.bytes(work); },
       .samples_factor = static_cast<double>(samples) / static_cast<double>(run),
       .products = wanted.products,
       .conv_tf32 = wanted.conv_tf32,
       .deterministic = wanted.deterministic});
  const struct Replacement {  // the device is not to call `workspaces` after its end
    const std::string& title;
    ~Replacement() {
      planned_device({.title = title + ", not on this host", .workspace_bytes = {}});
    }
  } replacement{described.title};
  const SlowNotice notice("computing the memory of the blocks for " + described.title);
  pipeline.block_costs =
      measure_blocks(pipeline.model, pipeline.data.dataset.samples(), pipeline.dtype,
                     pipeline.stream, run, 2, freezes_of(pipeline));
  for (BlockCosts& costs : pipeline.block_costs) {
    const std::set<std::size_t> scratch = costs.scratch_sizes;  // of all samples
    scale_samples(costs, samples, run);
    costs.scratch_sizes = scratch;
  }
  return workspaces.misses();
}

}  // namespace

std::optional<DescribedDevice> device_of_flag(std::string_view name) {
  if (name.empty() || name == "auto" || name == "cpu" || name == "cuda") return std::nullopt;
  std::string small(name);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  if (small == "a100-40gb") small = "a100";
  if (auto described = described_device(small)) return described;
  throw Error(
      ErrorCode::usage,
      fmt::format("plan: --device {}: there is no description of this device", printable(name, 40)),
      fmt::format("{}; cpu; or auto or cuda for the GPU of this machine. For another GPU, compare "
                  "the bound with its memory",
                  fmt::join(described_devices(), ", ")));
}

std::optional<PlannedGpu> gpu_of(const PipelineOptions& pipeline) {
  const Device device = pipeline.stream.device;
  if (device == Device::cpu()) return std::nullopt;
  PlannedGpu gpu{.title = backend(device).fingerprint()};
  if (const auto library = gpu_library())
    if (const GpuSurvey seen = library.value()->survey(); !seen.gpus.empty()) {
      gpu.title = seen.gpus.front().name;
      gpu.memory_bytes = seen.gpus.front().memory_bytes;
    }
  return gpu;
}

PlannedGpu plan_for(const DescribedDevice& described, const Stream& wanted,
                    PipelineOptions& pipeline) {
  PlannedGpu gpu{
      .title = described.title, .memory_bytes = described.memory_bytes, .described = true};
  const Result<const GpuLibrary*> found = gpu_library();
  const GpuLibrary* library = found ? found.value() : nullptr;
  if (compute_bytes(library, described, wanted, pipeline))
    gpu.without_cudnn = found.error().code() == ErrorCode::io
                            ? "this build has no CUDA (./dev build --cuda)"
                            : found.error().message();
  pipeline.stream.products = wanted.products;
  pipeline.stream.conv_tf32 = wanted.conv_tf32;
  pipeline.stream.matmul_tf32 = wanted.matmul_tf32;
  pipeline.stream.deterministic = wanted.deterministic;
  return gpu;
}

}  // namespace troupe

#pragma once
// The GPU that `troupe plan` bounds the memory of: the one that computes, or one that is described.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/pipeline.h"
#include "ops/described_device.h"

namespace troupe {

struct PlannedGpu {
  std::string title;              ///< "NVIDIA H200"
  std::int64_t memory_bytes = 0;  ///< 0: not known
  bool described = false;         ///< it need not be there: times are the CPU's
  std::string without_cudnn;      ///< why cuDNN's workspaces are not counted; empty: they are
};

/// The GPU of --device; nothing for "", "auto", "cpu" and "cuda", which are values of the option
/// `device`. Throws Error{usage} for other names, with those that are known.
std::optional<DescribedDevice> device_of_flag(std::string_view name);

/// What computes in the pipeline, unless it is the CPU.
std::optional<PlannedGpu> gpu_of(const PipelineOptions& pipeline);

/// Plans a pipeline that has block costs of the CPU for a GPU that is described: replaces their
/// bytes, and the device. `wanted` has the types that its stages are to multiply in. Throws
/// Error{unsupported} where a GPU has no kernels for them.
PlannedGpu plan_for(const DescribedDevice& described, const Stream& wanted,
                    PipelineOptions& pipeline);

}  // namespace troupe

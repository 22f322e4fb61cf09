// The memory that `troupe plan` computes for a GPU that is not there, against what the kernels of
// ops/cuda take.
#include <gtest/gtest.h>

#include <algorithm>

#include "actors/block_costs.h"
#include "actors/data/datasets.h"
#include "actors/pipeline.h"
#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/models/file_model.h"
#include "ops/planned_device.h"
#include "training_run.h"

namespace troupe::testing {
namespace {

/// A small model that is built in, or that of a file.
PipelineOptions with_model(const std::string& model) {
  if (!model.ends_with(".pt2")) return pipeline_of({.model = model, .partition = {SIZE_MAX}});
  PipelineOptions pipeline = pipeline_of({.partition = {SIZE_MAX}});
  pipeline.model = FileModel{.file = TROUPE_SOURCE_DIR "/tests/golden/graphs/" + model};
  pipeline.data.dataset =
      open_dataset(Synthetic{.shape = {3, 20, 24}, .classes = 4, .count = 24}, {.seed = 3});
  return pipeline;
}

class PlannedMemory : public ::testing::TestWithParam<DType> {};

TEST_P(PlannedMemory, IsThatOfTheKernelsOfTheDevice) {
  const DType products = GetParam();
  const cuda_on_cpu::Emulation emulation({.checked_places = 64});
  for (const char* model : {"mnist_cnn", "cifar_cnn", "wide_resnet", "resnet18", "vit.pt2"}) {
    const PipelineOptions pipeline = with_model(model);
    const auto costs = [&](const Stream& stream) {
      return measure_blocks(pipeline.model, pipeline.data.dataset.samples(), DType::f32, stream, 3,
                            2);
    };
    const auto there = costs({.device = emulated_gpu(), .products = products});
    const auto planned = costs(
        {.device = planned_device({.title = "a GPU",
                                   .workspace_bytes = [](const auto&) { return std::size_t{0}; },
                                   .products = products})});
    ASSERT_EQ(planned.size(), there.size());
    for (std::size_t b = 0; b < planned.size(); ++b) {
      SCOPED_TRACE(std::string(model) + ", " + planned[b].name);
      EXPECT_EQ(planned[b].output_bytes, there[b].output_bytes);
      EXPECT_EQ(planned[b].saved_bytes, there[b].saved_bytes);
      // The kernels of a device also take their workspace from its allocator, and the gradient of a
      // bias before it is copied: a plan counts 32 MiB and more for both.
      const std::size_t workspace = std::max<std::size_t>(256, 2 * there[b].scratch_bytes());
      const std::size_t bias = planned[b].output_bytes;
      // So are two factors that are rounded, each in blocks of the allocator, which a plan counts
      // with the workspace.
      const std::size_t rounded =
          products == DType::f32 ? 0 : 2 * (planned[b].saved_bytes + planned[b].output_bytes) + 512;
      EXPECT_GE(planned[b].working_bytes + workspace + bias + rounded, there[b].working_bytes);
      EXPECT_GE(planned[b].deferred_bytes, there[b].deferred_bytes);
      EXPECT_GE(planned[b].scratch_bytes(), there[b].scratch_bytes());
      EXPECT_EQ(planned[b].kept_bytes, there[b].kept_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WithProducts, PlannedMemory,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace troupe::testing

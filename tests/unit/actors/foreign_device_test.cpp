// Whole pipelines on a device whose memory the host cannot touch: code above the backends brings
// tensors to the device, computes by kernels, and reads what it copied to the CPU.
#include "foreign_device.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>

#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "rows_module.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/digest.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::foreign_device;
using testing::pipeline_of;
using testing::TrainingRun;

Tensor ones_there() {
  const Stream stream{.device = foreign_device()};
  Tensor result = Tensor::empty({5}, DType::f32, stream.device);
  kernels(stream.device, DType::f32).fill(stream, 1.0, result);
  return result;
}

TEST(ForeignDeviceDeathTest, EndsTheProcessWhereTheHostReadsItsMemory) {
  const Tensor tensor = ones_there();
  EXPECT_DEATH([[maybe_unused]] volatile float read = *tensor.data<float>(),
               "host code touched the memory of a device outside of a kernel");
}

TEST(ForeignDeviceDeathTest, EndsTheProcessWhereTheHostWritesItsMemory) {
  const Tensor tensor = ones_there();
  EXPECT_DEATH(std::memset(tensor.raw(), 0, tensor.bytes()),
               "host code touched the memory of a device outside of a kernel");
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ForeignDevice, RefusesTensorsOfTheCpuAsArgumentsOfAnyKernel) {
  const Stream there{.device = foreign_device()};
  const KernelTable& table = kernels(there.device, DType::f32);
  const auto of = [](Device device) { return Tensor::empty({4, 5}, DType::f32, device); };
  const Tensor here = of(Device::cpu()), x = of(foreign_device());
  const auto refused = [](int argument, std::string_view kernel) {
    return fmt::format("{}: argument {} is on cpu, not on the foreign device", kernel, argument);
  };
  EXPECT_EQ(refusal([&] {
              const Tensor targets = Tensor::empty({4}, DType::i64, Device::cpu());
              table.softmax_cross_entropy(there, x, targets, 1.0, true, 0, {});
            }),
            refused(3, "softmax_cross_entropy"));
  EXPECT_EQ(refusal([&] { table.relu(Stream{}, x); }), refused(1, "relu"));
  EXPECT_EQ(refusal([&] {
              Tensor sum = of(foreign_device());
              table.accumulate(there, sum, here);
            }),
            refused(3, "accumulate"));
  EXPECT_EQ(refusal([&] {
              Tensor row = Tensor::empty({5}, DType::f32, foreign_device());
              table.batch_norm(there, x, row, row, {row, row}, 1e-5, {.residual = here});
            }),
            refused(7, "batch_norm"));
  EXPECT_EQ(refusal([&] {
              table.linear({5, 5})->forward(there, here);
            }),
            refused(2, "LayerKernel::forward"));
  EXPECT_EQ(refusal([&] {
              Tensor copied = of(Device::cpu());
              table.copy(there, here, copied);
            }),
            refused(2, "copy"));
  EXPECT_EQ(refusal([&] { table.relu(there, x); }), "nothing was refused");
}

TEST(ForeignDevice, IsReadByCopies) {
  const Tensor tensor = ones_there();
  EXPECT_EQ(tensor.device(), foreign_device());
  const Tensor here = on_cpu({.device = foreign_device()}, tensor);
  EXPECT_THAT(here.elements<float>(), ::testing::Each(1.0f));
  const Tensor back = on_device({.device = foreign_device()}, here);
  EXPECT_EQ(back.device(), foreign_device());
  EXPECT_EQ(on_device({.device = foreign_device()}, back).raw(), back.raw()) << "not copied again";
}

TrainingRun on_foreign_device(TrainingRun run) {
  const auto adjust = run.adjust;
  run.adjust = [adjust](PipelineOptions& pipeline) {
    if (adjust) adjust(pipeline);
    pipeline.stream.device = foreign_device();
  };
  return run;
}

TEST(ForeignDevice, WritesTheCpusCheckpoint) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("troupe_foreign_" + std::to_string(::getpid()));
  const auto digest_written = [&](const TrainingRun& training) {
    PipelineOptions pipeline = pipeline_of(training);
    pipeline.writer = CheckpointWriterOptions{.folder = folder};
    const RunReport report =
        run(build_pipeline(pipeline),
            {.steps = {.count = timeline_of(pipeline).steps, .snapshot_at_end = true}});
    std::string result = digest_of(folder / checkpoint_name(report.steps));
    std::filesystem::remove_all(folder);
    return result;
  };
  EXPECT_EQ(digest_written(on_foreign_device({})), digest_written({}));
}

TEST(ForeignDevice, RefusesPixelsThatNameNoRowAsTheCpuDoes) {
  Tensor pixels = Tensor::zeros({2, 1, 2, 2}, DType::u8), values = Tensor::zeros({1, 256});
  std::iota(values.data<float>(), values.data<float>() + 256, 0.0f);
  const auto refusal_on = [&](const Stream& stream) -> std::string {
    Model model;
    model.add<testing::Rows>("rows");
    Network network(std::move(model), 0, 1, DType::f32, stream);
    network.use(on_device(stream, initial_state(network.spec(), DType::f32, 1)));
    network.take_pixels(values);
    try {
      (void)network.evaluate(pixels);
    } catch (const Error& error) {
      return error.message();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(refusal_on({.device = foreign_device()}), "nothing was refused");
  pixels.data<std::uint8_t>()[6] = 11;
  EXPECT_THAT(refusal_on({}), ::testing::HasSubstr("index 11 at place 2 of sample 1"));
  EXPECT_EQ(refusal_on({.device = foreign_device()}), refusal_on({}));
}

}  // namespace
}  // namespace troupe

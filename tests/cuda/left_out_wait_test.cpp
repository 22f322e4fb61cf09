// Whether the emulator finds that a run lacks one of its waits: without this, runs without
// violations would show nothing.

#include <gmock/gmock.h>

#include <string>

#include "gpu_run.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;

// Not each one: a stream that reuses a block waits for all that another has been given by then, of
// which what used the block may have been done long ago.
TEST(CudaPipeline, WaitsThatAreLeftOutAreFound) {
  const TrainingRun run{.partition = {2, 2}, .replicas = 2, .steps = 2, .evaluates = false};
  constexpr std::uint64_t tried = 12;
  std::uint64_t found = 0;
  for (std::uint64_t n = 1; n <= tried; ++n) {
    const Emulation emulation({.seed = n, .pace = cuda_on_cpu::Pace::lazy, .left_out_wait = 2 * n});
    const std::uint64_t before = cuda_on_cpu::counts().ordering_waits;
    try {
      (void)train(on_gpu(run));
    } catch (const Error&) {  // of numbers that were read too early
    }
    EXPECT_GE(cuda_on_cpu::counts().ordering_waits - before, 2 * n) << "none was left out";
    if (!cuda_on_cpu::take_violations().empty()) ++found;
  }
  EXPECT_GE(found, 2u) << "usually it is more than half";
  RecordProperty("found", std::to_string(found));
}

}  // namespace
}  // namespace troupe::testing

// Whether the emulator finds that a run lacks one of its waits: without this, runs without
// violations would show nothing.

#include <gmock/gmock.h>

#include <string>

#include "gpu_run.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;

// Not each wait is found, since not each is needed in each run: the host may have seen in the
// meantime what the stream was to wait for, and a reducer waits for the gradient that it keeps
// until another comes, perhaps with a later wait for the same stream.
TEST(CudaPipeline, WaitsThatAreLeftOutAreFoundUnlessAnotherWaitDoes) {
  const TrainingRun run{.partition = {2, 2}, .replicas = 2, .steps = 1, .evaluates = false};
  const std::string complete = digest_on_gpu(run, 1);
  std::uint64_t tried = 0, found = 0;
  constexpr std::uint64_t most = 60;
  for (const std::uint64_t seeds : {0, 100}) {  // twice, since the share varies with the order
    std::uint64_t n = 1;
    for (; n <= most; ++n) {
      const Emulation emulation(
          {.seed = seeds + n, .pace = cuda_on_cpu::Pace::lazy, .left_out_wait = n});
      const std::uint64_t before = cuda_on_cpu::counts().ordering_waits;
      std::string digest;
      try {
        digest = train(on_gpu(run)).digest;
      } catch (const Error&) {  // of numbers that were read too early
      }
      if (cuda_on_cpu::counts().ordering_waits - before < n) break;  // it has had all of the run
      const bool is_found = !cuda_on_cpu::take_violations().empty();
      if (!is_found) {
        EXPECT_EQ(digest, complete) << "the wait " << n << " was needed";
      }
      if (!is_found && cuda_on_cpu::counts().left_out_was_needless) continue;
      ++tried;
      found += is_found ? 1 : 0;
    }
    EXPECT_LE(n, most) << "the last waits were not tried";
  }
  EXPECT_GE(tried, 20u);
  EXPECT_GE(4 * found, 3 * tried) << "of " << tried << " only " << found << " were found";
  RecordProperty("found", std::to_string(found) + " of " + std::to_string(tried));
}

}  // namespace
}  // namespace troupe::testing

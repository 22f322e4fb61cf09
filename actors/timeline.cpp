#include "actors/timeline.h"

#include <fmt/format.h>

#include "actors/data/sampler.h"
#include "runtime/error.h"

namespace troupe {

std::uint32_t checked_steps(std::int64_t steps) {
  if (steps >= 0 && steps <= UINT32_MAX) return static_cast<std::uint32_t>(steps);
  throw Error(ErrorCode::bad_options, fmt::format("a run of {} steps", steps),
              "lower `epochs`: at most 4294967295 steps are possible");
}

Timeline timeline_of(const SamplerOptions& batches, std::int64_t epochs) {
  const std::int64_t per_epoch = Sampler(batches).batches_per_epoch();
  return {.steps = checked_steps(epochs * per_epoch),
          .steps_per_epoch = static_cast<std::uint32_t>(per_epoch)};
}

}  // namespace troupe

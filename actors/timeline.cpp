#include "actors/timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/data/sampler.h"
#include "runtime/error.h"

namespace troupe {

std::int64_t batches_in(const SamplerOptions& batches, std::int64_t epochs) {
  constexpr std::int64_t most_epochs = 1'000'000;  // times 2^32 batches: far below overflow
  if (epochs < 1 || epochs > most_epochs)
    throw Error(ErrorCode::bad_options, fmt::format("`epochs` is {}", epochs),
                fmt::format("give a number from 1 to {}", most_epochs));
  return epochs * Sampler(batches).batches_per_epoch();
}

Timeline timeline_of(const SamplerOptions& batches, std::int64_t epochs, std::int64_t max_steps) {
  std::int64_t steps = batches_in(batches, epochs);
  if (max_steps > 0) steps = std::min(steps, max_steps);
  if (steps > UINT32_MAX)
    throw Error(ErrorCode::bad_options, fmt::format("a run of {} steps", steps),
                fmt::format("lower `epochs`: at most {} steps are possible", UINT32_MAX));
  return {.steps = static_cast<std::uint32_t>(steps),
          .steps_per_epoch = static_cast<std::uint32_t>(Sampler(batches).batches_per_epoch())};
}

}  // namespace troupe

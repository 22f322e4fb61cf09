#include "actors/timeline.h"

#include "actors/data/sampler.h"

namespace troupe {

Timeline timeline_of(const SamplerOptions& batches, std::int64_t epochs) {
  const auto per_epoch = static_cast<std::uint32_t>(Sampler(batches).batches_per_epoch());
  return {.steps = static_cast<std::uint32_t>(epochs) * per_epoch, .steps_per_epoch = per_epoch};
}

}  // namespace troupe

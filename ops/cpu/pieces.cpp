#include "ops/cpu/pieces.h"

namespace troupe::cpu {

std::int64_t equal_groups(std::int64_t items, std::int64_t unit, std::int64_t least,
                          std::int64_t most) {
  if (items % unit != 0) return 1;
  for (std::int64_t groups = std::min(most, items / unit); groups > 1; --groups)
    if (items / unit % groups == 0 && items / groups >= least) return groups;
  return 1;
}

void add_up(const Stream& stream, const Partials& partials, std::int64_t count, float* to) {
  parallel(stream, count, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    std::copy(partials.first + begin, partials.first + end, to + begin);
    for (std::int64_t p = 1; p < partials.count; ++p) {
      const float* from = partials.first + p * partials.stride;
      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  });
}

}  // namespace troupe::cpu

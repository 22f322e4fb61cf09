#include "ops/cpu/pieces.h"

namespace troupe::cpu {

std::int64_t equal_groups(std::int64_t items, std::int64_t unit, std::int64_t least,
                          std::int64_t most) {
  if (items % unit != 0) return 1;
  for (std::int64_t groups = std::min(most, items / unit); groups > 1; --groups)
    if (items / unit % groups == 0 && items / groups >= least) return groups;
  return 1;
}

}  // namespace troupe::cpu

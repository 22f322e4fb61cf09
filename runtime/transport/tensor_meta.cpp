#include "runtime/transport/tensor_meta.h"

#include <fmt/format.h>

namespace troupe {

std::string to_string(const TensorMeta& meta) {
  return fmt::format("{} {} {}", name_of(meta.dtype), to_string(meta.shape), name_of(meta.layout));
}

}  // namespace troupe

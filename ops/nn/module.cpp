#include "ops/nn/module.h"

namespace troupe::nn {

void Module::declare(StateSpec& spec) {
  for (const auto& child : children_) child->declare(spec);
}

}  // namespace troupe::nn

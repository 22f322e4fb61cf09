#pragma once
// Models by name, small, and the samples that they are tested with.

#include <string>

#include "ops/models/models.h"

namespace troupe::testing_ops {

inline const SampleSpec mnist_samples{.shape = {1, 28, 28}, .classes = 10};

struct SmallModelOptions {
  std::vector<std::int64_t> resnet_widths = {}, mlp_widths = {};
  double dropout = 0;
};

inline ModelSource small_model(const std::string& name, const SmallModelOptions& options) {
  if (name == "wide_resnet")
    return WideResNet{.widths = options.resnet_widths, .dropout = options.dropout};
  if (name == "mlp") return Mlp{.widths = options.mlp_widths};
  return MnistCnn{};
}

}  // namespace troupe::testing_ops

#pragma once
// Models by name, small, and the samples and weights that they are tested with.

#include <algorithm>
#include <string>
#include <vector>

#include "ops/kernels.h"
#include "ops/models/models.h"
#include "ops/nn/state.h"

namespace troupe::testing_ops {

inline const SampleSpec mnist_samples{.shape = {1, 28, 28}, .classes = 10};
inline const SampleSpec cifar_samples{.shape = {3, 32, 32}, .classes = 10};

struct SmallModelOptions {
  std::vector<std::int64_t> wide_resnet_widths = {}, mlp_widths = {}, resnet_widths = {};
  double dropout = 0;
};

inline ModelSource small_model(const std::string& name, const SmallModelOptions& options) {
  if (name == "wide_resnet")
    return WideResNet{.widths = options.wide_resnet_widths, .dropout = options.dropout};
  if (name == "mlp") return Mlp{.widths = options.mlp_widths};
  if (name == "cifar_cnn") return CifarCnn{};
  if (name == "resnet18") return ResNet18{{.widths = options.resnet_widths}};
  if (name == "resnet34") return ResNet34{{.widths = options.resnet_widths}};
  if (name == "resnet50") return ResNet50{{.widths = options.resnet_widths}};
  const ResNetOptions cifar{.stem = ResNetStem::cifar, .widths = options.resnet_widths};
  if (name == "resnet18_cifar") return ResNet18{cifar};
  if (name == "resnet50_cifar") return ResNet50{cifar};
  return MnistCnn{};
}

/// A state in the CPU's memory as small_init_residual() of golden_models.py leaves it: the last
/// norm of each residual branch of a ResNet is small. Returns the state.
inline StatePtr small_init_residual(const StateSpec& spec, StatePtr state) {
  std::vector<NamedTensor> tensors = named_tensors(spec, *state, false);
  const bool bottlenecks = std::ranges::any_of(
      tensors, [](const NamedTensor& named) { return named.name == "layer1.0.bn3.weight"; });
  for (NamedTensor& named : tensors)
    if (named.name.starts_with("layer") &&
        named.name.ends_with(bottlenecks ? ".bn3.weight" : ".bn2.weight"))
      kernels({}, named.tensor.dtype()).fill({}, 0.125, named.tensor);
  return state;
}

}  // namespace troupe::testing_ops

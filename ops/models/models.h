#pragma once
// The models that make_model knows, a file each. Their options are checked by make_model, except
// for what only one of them knows about.

#include "ops/models/model.h"

namespace troupe::models {

/// The wide ResNet of Sigma2's guide "PyTorch on Olivia" (after S. Zagoruyko, N. Komodakis, "Wide
/// residual networks", BMVC 2016) with free widths. Samples of 28 to 55 pixels a side.
///
/// Blocks: input_block, block1, block2, pool1, block3, block4, pool2, block5, block6, pool, flat,
/// fc. A block is z = layer2(dropout(layer1(x))) + residual, where a layer is convolution, batch
/// norm and ReLU, and the residual is x or, where the width changes, its 1x1 convolution.
Model wide_resnet(const ModelOptions& options);

/// The convolutional network that CSC's PyTorch examples train on MNIST: two layers of a 5x5
/// convolution (16 and 32 channels), batch norm, ReLU and max pooling, then one linear layer.
/// Blocks: layer1, layer2, flatten, fc.
Model mnist_cnn(const ModelOptions& options);

/// Linear layers with ReLUs between; model.widths are the hidden sizes. In PyTorch an
/// nn.ModuleList `layers` of Linear. Blocks: flatten, layers.0, layers.1, ….
Model mlp(const ModelOptions& options);

}  // namespace troupe::models

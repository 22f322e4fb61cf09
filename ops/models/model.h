#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/nn/module.h"

namespace troupe {

/// A model as an ordered list of blocks; a pipeline may be cut between any two of them. Building
/// one allocates no weights, so each stage builds the whole and keeps its share. Used by one thread
/// at a time, as its blocks are.
struct Model {
  std::string name;
  Shape sample_shape;  ///< (C, H, W) of one sample
  std::int64_t classes = 0;
  std::vector<std::unique_ptr<nn::Module>> blocks;

  /// Appends a block made of its path and options.
  template <class M, class... Args>
  M& add(std::string path, Args&&... args) {
    auto made = std::make_unique<M>(std::move(path), std::forward<Args>(args)...);
    M& reference = *made;
    blocks.push_back(std::move(made));
    return reference;
  }
};

struct ModelOptions {
  std::string name = "wide_resnet";  ///< wide_resnet | mnist_cnn | mlp
  std::int64_t in_channels = 1;
  std::int64_t height = 28, width = 28;  ///< of the samples; from the data set
  /// wide_resnet: four numbers of channels; mlp: hidden sizes; mnist_cnn has none. Empty: the
  /// model's own, [16, 16, 32, 64] and [128, 64].
  std::vector<std::int64_t> widths;
  std::int64_t classes = 10;
  double dropout = 0.01;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;
};

/// From any thread. Throws Error{bad_options} for an unknown name (with the known ones) or sizes
/// that the model cannot have.
Model make_model(const ModelOptions& options);

}  // namespace troupe

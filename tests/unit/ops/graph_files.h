#pragma once
// The exported models of tests/golden/make_graphs.py, and how they are trained there.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ops/models/file_model.h"
#include "runtime/file/safetensors.h"

namespace troupe::testing_ops {

/// The folder of the models. tests/golden/newest_pytorch.py names another one with TROUPE_GOLDEN.
inline const std::string golden_folder = [] {
  const char* other = std::getenv("TROUPE_GOLDEN");
  return other ? std::string(other) + "/" : std::string(TROUPE_SOURCE_DIR "/tests/golden/");
}();

/// "graphs/vgg.pt2" in the golden folder.
inline std::string graph_file(const std::string& model, const std::string& extension = ".pt2") {
  return golden_folder + "graphs/" + model + extension;
}

/// What a model of graph_models.py is trained with.
inline SampleSpec graph_samples(const std::string& model) {
  if (model == "tokens") return {.shape = {12}, .dtype = DType::i64, .classes = 10};
  if (model == "series" || model == "masked" || model == "recurrent")
    return {.shape = {20, 6}, .classes = 10};
  return {.shape = {3, 20, 24}, .classes = 10};
}
inline const std::vector<std::string> graph_models{"vgg",  "resnet18", "depthwise", "dense", "vit",
                                                   "tied", "tokens",   "draws",     "series"};
inline const std::vector<std::string> graph_models_of_pt2{"masked", "recurrent"};

}  // namespace troupe::testing_ops

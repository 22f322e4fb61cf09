#pragma once
#include <string>
#include <vector>

#include "actors/pipeline.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// What a file that need not fit the model gives it.
struct PartialWeights {
  TensorSource tensors;             ///< all of the model's
  std::vector<std::string> anew;    ///< what begins as in a new run, and why: sentences without end
  std::vector<std::string> unused;  ///< tensors of the file that the model does not take
};

/// The tensors of a file as far as their names, shapes and types fit the model; the others begin as
/// in a new run with the seed of `options` (PyTorch: `load_state_dict(strict=False)`, which however
/// refuses other shapes). Reads headers only; tensors are read when they are used. Throws
/// Error{bad_file} if no parameter fits.
PartialWeights partial_weights(const PipelineOptions& options, const TensorSource& file);

}  // namespace troupe

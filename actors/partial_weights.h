#pragma once
#include <string>
#include <vector>

#include "actors/pipeline.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// The result of loading a file that has only some of the model's tensors.
struct PartialWeights {
  TensorSource tensors;                  ///< all of the model's
  std::vector<std::string> initialised;  ///< what has initial values, and why; without full stops
  std::vector<std::string> unused;  ///< tensors of the file that the model does not take, or why
  // The first entries of both name a similar tensor of the other list: "a [like b of the file]".
};

/// Takes the tensors of a file whose names, shapes and types fit the model; the others have the
/// initial values of a new run with the seed of `options`. PyTorch's
/// `load_state_dict(strict=False)` does the same, but refuses other shapes. Reads headers and
/// fixed constants (ConstantSpec) only; other tensors are read when they are used. Throws
/// Error{bad_file}, which names the file as `origin`, if no parameter fits.
PartialWeights partial_weights(const PipelineOptions& options, const TensorSource& file,
                               const std::string& origin);

}  // namespace troupe

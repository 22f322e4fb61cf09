#pragma once
// What a checkpoint says of the run that wrote it. Pure functions, which throw nothing of their
// own.

#include <string>

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/pipeline.h"

namespace troupe {

/// Model and samples as the text of an options file, for CheckpointWriterOptions::options: with it
/// `troupe eval CHECKPOINT` counts the same test set, normalised in the same way.
std::string options_text(const ModelOptions& model, const Dataset& data,
                         const TransformOptions& transform = {});

/// The same of a pipeline, with the size of its batches. build_pipeline gives it to its writer.
std::string options_text(const PipelineOptions& options);

}  // namespace troupe

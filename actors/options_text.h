#pragma once
// The description of a run in its checkpoints. Pure functions that throw no errors of their own.

#include <string>

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/pipeline.h"

namespace troupe {

/// Model, data set and normalisation as the text of an options file, for
/// CheckpointWriterOptions::options. With it, `troupe eval CHECKPOINT` evaluates models and data
/// sets of the registries.
std::string options_text(const ModelSource& model, const Dataset& data,
                         const TransformOptions& transform = {});

/// The same of a pipeline, with the size of its batches. build_pipeline passes it to its writer.
std::string options_text(const PipelineOptions& options);

}  // namespace troupe

#pragma once
// What a checkpoint says of the run that wrote it. Pure functions, which throw nothing of their
// own.

#include <string>

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/pipeline.h"

namespace troupe {

/// Model, data set and normalisation as the text of an options file, for
/// CheckpointWriterOptions::options. From it `troupe eval CHECKPOINT` evaluates models and data
/// sets of the registries.
std::string options_text(const ModelSource& model, const Dataset& data,
                         const TransformOptions& transform = {});

/// The same of a pipeline, with the size of its batches. build_pipeline passes it to its writer.
std::string options_text(const PipelineOptions& options);

}  // namespace troupe

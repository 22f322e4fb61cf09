#pragma once
#include "actors/pipeline.h"
#include "runtime/options/field.h"

namespace troupe {

/// The option `precision`: one of actors/precision.h, or the former name of one. Other programs'
/// names are refused with what to write instead. Whether the processor can compute so is not
/// checked: the options may be for another node.
OptionField precision_field(PipelineOptions& options);

}  // namespace troupe

#pragma once
#include "actors/pipeline.h"
#include "runtime/options/field.h"

namespace troupe {

/// The options `precision`, one of actors/precision.h or the former name of one, `matmul_precision`
/// and `conv_precision`. Other programs' names are refused with what to write instead. Whether the
/// device can compute so is not checked: the options may be for another node.
OptionFields precision_fields(PipelineOptions& options);

}  // namespace troupe

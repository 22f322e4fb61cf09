#include "ops/models/model.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe {

Model ModelSource::make(const SampleSpec& samples) const {
  ModelSource checked = *this;
  check_fields(checked.options());
  Model model = definition_->make(samples);
  model.name = name();
  if (model.blocks.empty())
    throw Error(ErrorCode::bad_options, fmt::format("the model {} has no blocks", name()),
                "add at least one block in its make()");
  return model;
}

}  // namespace troupe

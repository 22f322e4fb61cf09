#include "ops/models/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {

ModelSource find_model(const std::string& name) {
  const std::vector<ModelSource> models = known_models();
  std::vector<std::string_view> names;
  for (const ModelSource& model : models) {
    if (model.name() == name) return model;
    names.push_back(model.name());
  }
  throw Error(ErrorCode::bad_options, fmt::format("`Model::name` is '{}'", name),
              did_you_mean(name, names, fmt::format("the models are {}", fmt::join(names, ", "))));
}

}  // namespace troupe

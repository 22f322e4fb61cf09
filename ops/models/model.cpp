#include "ops/models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ops/nn/state.h"
#include "runtime/error.h"

namespace troupe {

bool is_number(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

DType batch_type(const SampleSpec& samples, DType precision) {
  return samples.dtype == DType::u8 || is_number(samples.dtype) ? precision : samples.dtype;
}

Model ModelSource::make(SampleSpec samples, DType precision) const {
  check_options();
  samples.dtype = batch_type(samples, precision);
  Model model = make_(*this, samples);
  model.name = name();
  if (model.blocks.empty())
    throw Error(ErrorCode::bad_options, fmt::format("the model {} has no blocks", name()),
                "add at least one block in its make()");
  return model;
}

std::optional<std::int64_t> ModelSource::outputs() const {
  if (outputs_) return outputs_(*this);
  ModelSource copy = *this;  // fields are bound to variables
  for (const OptionField& field : copy.options()) {
    if (field.path != "model.classes") continue;
    const std::string text = field.write();  // a model of a program may have a list there
    std::int64_t classes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), classes);
    if (error == std::errc{} && end == text.data() + text.size()) return classes;
  }
  return std::nullopt;
}

std::vector<std::string> parameter_names(const Model& model) {
  StateSpec spec;
  for (const auto& block : model.blocks) block->declare(spec);
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters()) names.push_back(parameter.name);
  return names;
}

std::size_t first_trained_block(const Model& model, const Freezes& freezes) {
  StateSpec spec;
  const auto is_trained = [&](const ParameterSpec& parameter) {
    return !parameter.frozen && !(freezes && freezes(parameter.name));
  };
  for (std::size_t block = 0; block < model.blocks.size(); ++block) {
    model.blocks[block]->declare(spec);
    if (std::ranges::any_of(spec.parameters(), is_trained)) return block;
  }
  return model.blocks.size();
}

}  // namespace troupe

#include "apps/load_options.h"

#include "apps/options_table.h"
#include "runtime/options/node.h"

namespace troupe {
namespace {

Options resolve(OptionNode document, const std::vector<std::string>& overrides) {
  for (const auto& assignment : overrides) apply_override(document, assignment);
  Options options;
  const OptionOrigins origins = read_fields(document, option_fields(options));
  validate(options, origins);
  return options;
}

}  // namespace

Options load_options(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return resolve(read_yaml(file), overrides);
}

Options parse_options(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides) {
  return resolve(parse_yaml(text, source), overrides);
}

ModelOptions model_options(const Options& options) {
  ModelOptions model;
  model.name = options.model.name;
  model.in_channels = options.model.in_channels;
  if (options.data.name == "synthetic") {
    model.height = options.data.shape.at(1);
    model.width = options.data.shape.at(2);
  }
  model.widths = options.model.widths;
  model.classes = options.model.classes;
  model.dropout = options.model.dropout;
  if (options.convolution == "direct") model.convolution = ConvolutionAlgorithm::direct;
  if (options.convolution == "winograd") model.convolution = ConvolutionAlgorithm::winograd;
  return model;
}

}  // namespace troupe

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

}  // namespace troupe

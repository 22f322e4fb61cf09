#include "apps/options/load_options.h"

#include "apps/options/options_table.h"
#include "runtime/options/node.h"

namespace troupe {
namespace {

Options resolve(OptionNode document, const std::vector<std::string>& overrides,
                OptionOrigins* where = nullptr) {
  for (const auto& assignment : overrides) apply_override(document, assignment);
  Options options;
  OptionOrigins origins = read_fields(document, option_fields(options));
  validate(options, origins);
  if (where != nullptr) *where = std::move(origins);
  return options;
}

}  // namespace

Options load_options(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     OptionOrigins* origins) {
  return resolve(read_yaml(file), overrides, origins);
}

Options parse_options(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides) {
  return resolve(parse_yaml(text, source), overrides);
}

}  // namespace troupe

#include "apps/options/load_options.h"

#include "apps/options/options_table.h"
#include "runtime/options/node.h"

namespace troupe {
namespace {

/// Older files and checkpoints name parallel.partition "cut". The last of the two that was set
/// counts.
void rename_former_key(OptionNode& document) {
  OptionNode* parallel = document.find("parallel");
  if (parallel == nullptr || parallel->find("cut") == nullptr) return;
  std::erase_if(parallel->entries, [](const auto& entry) { return entry.key == "partition"; });
  for (OptionNode::Entry& entry : parallel->entries)
    if (entry.key == "cut") entry.key = "partition";
}

Options resolve(OptionNode document, const std::vector<std::string>& overrides) {
  rename_former_key(document);
  for (const auto& assignment : overrides) {
    apply_override(document, assignment);
    rename_former_key(document);
  }
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

#include "apps/options/load_options.h"

#include <fmt/format.h>

#include "apps/options/options_table.h"
#include "runtime/error.h"
#include "runtime/options/tree.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// Older files have model.in_channels. The data set tells the channels; the key is only checked.
class FormerChannels {
 public:
  static constexpr const char* key = "model.in_channels";

  /// Takes the key out of the document.
  explicit FormerChannels(OptionTree& document) {
    OptionTree* model = document.find("model");
    const OptionTree* found = model == nullptr ? nullptr : model->find("in_channels");
    if (found == nullptr) return;
    value_ = *found;
    std::erase_if(model->entries, [](const auto& entry) { return entry.key == "in_channels"; });
  }
  void check(const Options& options) const {
    if (value_.kind == OptionTree::Kind::null) return;
    std::int64_t channels = 0;
    field(key, channels, "", {.at_least = 1, .at_most = 1e6}).read(value_);
    const Shape shape = dataset_summary(options).samples.shape;
    const std::int64_t actual = shape.rank() == 3 ? shape[0] : 1;
    if (channels != actual)
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: {} is {}, but samples of {} have {}", value_.where, key,
                              channels, options.dataset.name, counted(actual, "channel")),
                  fmt::format("leave {} out", key));
  }

 private:
  OptionTree value_;
};

Options resolve(OptionTree document, const std::vector<std::string>& overrides,
                const Definitions& own, OptionOrigins* where = nullptr) {
  for (const auto& assignment : overrides) apply_override(document, assignment);
  const FormerChannels former_channels(document);
  Options options(own);
  OptionOrigins origins = read_fields(document, option_fields(options));
  validate(options, origins);
  former_channels.check(options);
  if (where != nullptr) *where = std::move(origins);
  return options;
}

}  // namespace

Options load_options(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     const Definitions& own, OptionOrigins* origins) {
  return resolve(read_yaml(file), overrides, own, origins);
}

Options parse_options(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides, const Definitions& own) {
  return resolve(parse_yaml(text, source), overrides, own);
}

Options parse_past_options(std::string_view text, const std::string& source,
                           const Definitions& own) {
  return parse_options(
      text, source, {"model.weights=", "data.path=", FormerChannels::key + std::string("=")}, own);
}

}  // namespace troupe

#include "apps/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "actors/data/datasets.h"
#include "apps/options/options_table.h"
#include "ops/models/models.h"
#include "ops/optim/optimizers.h"
#include "runtime/error.h"

namespace troupe {
namespace {

/// `prefix`: of all keys of these definitions.
template <class D>
Choice<D> choice_of(std::vector<D> all, const std::vector<D>& added, std::string_view prefix) {
  for (D one : added) {
    if (std::ranges::find(all, one.name(), &D::name) != all.end())
      throw Error(ErrorCode::bad_options,
                  fmt::format("two definitions have the `{}` {}", D::setting, one.name()),
                  "give one of them another name");
    for (const OptionField& field : one.options())
      if (!field.path.starts_with(prefix))
        throw Error(ErrorCode::bad_options,
                    fmt::format("the definition {} has the key {}, which does not begin with {}",
                                one.name(), field.path, prefix),
                    fmt::format("call it {}{}", prefix, field.path));
    all.push_back(std::move(one));
  }
  return {.all = std::move(all)};
}

/// Throws for a key of a program's definition that is the library's too.
void check_keys(const OptionFields& fields) {
  std::set<std::string_view> keys;
  for (const OptionField& field : fields)
    if (!keys.insert(field.path).second)
      throw Error(ErrorCode::bad_options,
                  fmt::format("a definition has the key {}, which Troupe has too", field.path),
                  "give it another name");
}

}  // namespace

Options::Options(Definitions added)
    : own(std::move(added)),
      model(choice_of(known_models(), own.models, "model.")),
      dataset(choice_of(known_datasets(), own.datasets, "data.")),
      optimizer(choice_of(known_optimizers(), own.optimizers, "train.")) {
  check_keys(option_fields(*this));
}

DatasetOptions dataset_options(const Options& options) {
  DatasetOptions dataset = options.selection;
  dataset.seed = options.pipeline.seed;
  return dataset;
}

Dataset open_dataset(const Options& options) {
  return open_dataset(options.dataset.chosen(), dataset_options(options),
                      options.samples ? options.samples.value().opened : nullptr);
}

std::optional<std::size_t> block_count(const Options& options) {
  if (!options.samples) return std::nullopt;
  return options.model.chosen()
      .make(options.samples.value().samples, options.pipeline.dtype)
      .blocks.size();
}

std::string model_file(const Options& options) {
  if (options.model.name != FileModel::name) return {};
  ModelSource model = options.model.chosen();
  for (const OptionField& field : model.options())
    if (field.path == "model.file") return field.write();
  return {};
}

std::string model_title(const ModelSource& model) {
  const std::string file = model.file().string();
  return file.empty() ? std::string(model.name()) : file;
}

std::map<std::string, std::string> dataset_settings(const Options& options) {
  DatasetSource source = options.dataset.chosen();
  std::map<std::string, std::string> settings;
  for (const OptionField& field : source.options())
    if (field.path != "data.path") settings[field.path] = field.write();
  return settings;
}

}  // namespace troupe

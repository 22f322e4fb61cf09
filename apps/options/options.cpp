#include "apps/options/options.h"

#include <algorithm>

#include "runtime/error.h"

namespace troupe {
namespace {

template <class Source>
const Source* find_source(const std::vector<Source>& sources, const std::string& name) {
  const auto found =
      std::ranges::find_if(sources, [&](const Source& source) { return source.name() == name; });
  return found == sources.end() ? nullptr : &*found;
}

}  // namespace

const ModelSource& model_source(const Options& options) {
  if (const ModelSource* source = find_source(options.models, options.model)) return *source;
  (void)find_model(options.model);  // throws
  throw Error(ErrorCode::internal, "a known model that is not among the options");
}

const DatasetSource& dataset_source(const Options& options) {
  if (const DatasetSource* source = find_source(options.datasets, options.dataset)) return *source;
  (void)find_dataset(options.dataset);  // throws
  throw Error(ErrorCode::internal, "a known data set that is not among the options");
}

DatasetOptions dataset_options(const Options& options) {
  DatasetOptions dataset = options.selection;
  dataset.seed = options.pipeline.seed;
  return dataset;
}

DatasetSummary dataset_summary(const Options& options) {
  const DatasetOptions selection = dataset_options(options);
  const SampleSpec fashion_mnist{.shape = {1, 28, 28}, .dtype = DType::u8, .classes = 10};
  try {
    DatasetSummary summary = dataset_source(options).describe(selection);
    if (summary.samples.classes == 0) summary.samples.classes = fashion_mnist.classes;
    return summary;
  } catch (const Error&) {  // opening the data set throws it
    return {.samples = fashion_mnist,
            .train = selection.taken(Split::train, 60000),
            .test = selection.taken(Split::test, 10000)};
  }
}

std::map<std::string, std::string> dataset_settings(const Options& options) {
  DatasetSource source = dataset_source(options);
  std::map<std::string, std::string> settings;
  for (const OptionField& field : source.options())
    if (field.path != "data.path") settings[field.path] = field.write();
  return settings;
}

}  // namespace troupe

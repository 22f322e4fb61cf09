#include "actors/options_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "actors/precision.h"
#include "runtime/options/field.h"

namespace troupe {
namespace {

void add(OptionFields& fields, std::string path, std::string text) {
  fields.push_back(constant_field(std::move(path), std::move(text)));
}

OptionFields fields_of(ModelSource model, const Dataset& data, const TransformOptions& transform,
                       const Stream& stream) {
  OptionFields fields;
  add(fields, "precision", std::string(name_of(Precision{transform.dtype, stream.products})));
  // Earlier versions, which do not know these keys, read what has the defaults.
  if (stream.matmul_tf32) add(fields, "matmul_precision", "tf32");
  if (stream.conv_tf32) add(fields, "conv_precision", "tf32");
  add(fields, "model.name", yaml_text(model.name()));
  for (const OptionField& field : model.options()) add(fields, field.path, field.write());
  add(fields, "data.name", yaml_text(data.name()));
  for (const OptionField& field : data.description()) fields.push_back(field);
  add(fields, "data.mean", fmt::format("[{}]", fmt::join(transform.mean, ", ")));
  add(fields, "data.std", fmt::format("[{}]", fmt::join(transform.std, ", ")));
  return fields;
}

/// A section of a document is written in one piece, after the keys that belong to none.
std::string text_of(OptionFields fields) {
  const auto section = [](const OptionField& field) {
    const auto dot = field.path.rfind('.');
    return dot == std::string::npos ? std::string() : field.path.substr(0, dot);
  };
  std::ranges::stable_sort(fields, {}, section);
  return write_fields(fields);
}

}  // namespace

std::string options_text(const ModelSource& model, const Dataset& data,
                         const TransformOptions& transform) {
  OptionFields fields = fields_of(model, data, transform, {});
  // The size of the batches is not known here; no data set is smaller than a batch.
  add(fields, "data.drop_last", "false");
  return text_of(std::move(fields));
}

std::string options_text(const PipelineOptions& options) {
  const PipelineData& data = options.data;
  OptionFields fields =
      fields_of(options.model, data.dataset,
                {.mean = data.mean, .std = data.std, .dtype = options.dtype}, options.stream);
  add(fields, "data.shuffle", data.shuffle ? "true" : "false");
  add(fields, "data.drop_last", data.drop_last ? "true" : "false");
  add(fields, "train.batch_size", std::to_string(options.batch_size));
  add(fields, "train.micro_batches", std::to_string(options.micro_batches));
  add(fields, "train.loss", std::string(name_of(options.loss.kind)));
  return text_of(std::move(fields));
}

}  // namespace troupe

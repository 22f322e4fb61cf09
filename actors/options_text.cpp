#include "actors/options_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/options/field.h"

namespace troupe {
namespace {

std::string_view name_of_algorithm(ConvolutionAlgorithm algorithm) {
  if (algorithm == ConvolutionAlgorithm::direct) return "direct";
  return algorithm == ConvolutionAlgorithm::winograd ? "winograd" : "auto";
}

std::string model_text(const ModelOptions& model) {
  return fmt::format(
      "model: {{name: {}, in_channels: {}, widths: [{}], classes: {}, dropout: {}}}\n"
      "convolution: {}\n",
      yaml_text(model.name), model.in_channels, fmt::join(model.widths, ", "), model.classes,
      model.dropout, name_of_algorithm(model.convolution));
}

std::string data_text(const Dataset& dataset, const TransformOptions& transform,
                      std::string_view more) {
  const DatasetOptions& data = dataset.options();
  return fmt::format(
      "seed: {}\n"
      "precision: {}\n"
      "data:\n"
      "  name: {}\n"
      "  path: {}\n"
      "  shape: [{}]\n"
      "  classes: {}\n"
      "  count: {}\n"
      "  limit: {}\n"
      "  test_limit: {}\n"
      "  mean: [{}]\n"
      "  std: [{}]\n{}",
      data.seed, transform.dtype == DType::f64 ? "f64" : "f32", yaml_text(data.name),
      yaml_text(data.path.string()), fmt::join(data.shape.dims(), ", "), data.classes, data.count,
      data.limit, data.test_limit, fmt::join(transform.mean, ", "), fmt::join(transform.std, ", "),
      more);
}

}  // namespace

std::string options_text(const ModelOptions& model, const Dataset& data,
                         const TransformOptions& transform) {
  // Whatever the size of its batches was: it is not known here, and must not be too large.
  return model_text(model) + data_text(data, transform, "  drop_last: false\n");
}

std::string options_text(const PipelineOptions& options) {
  const PipelineData& data = options.data;
  const std::string more =
      fmt::format("  shuffle: {}\n  drop_last: {}\ntrain: {{batch_size: {}, micro_batches: {}}}\n",
                  data.shuffle, data.drop_last, options.batch_size, options.micro_batches);
  return model_text(options.model) +
         data_text(data.dataset, {.mean = data.mean, .std = data.std, .dtype = options.dtype},
                   more);
}

}  // namespace troupe

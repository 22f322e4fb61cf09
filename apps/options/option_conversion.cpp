#include "apps/options/option_conversion.h"

namespace troupe {

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

DType precision_of(const Options& options) {
  return options.precision == "f64" ? DType::f64 : DType::f32;
}

DatasetOptions dataset_options(const Options& options) {
  const Options::Data& data = options.data;
  return {.name = data.name,
          .path = data.path,
          .shape = Shape(data.shape),
          .classes = data.classes,
          .count = data.count,
          .seed = options.seed,
          .limit = data.limit,
          .test_limit = data.test_limit};
}

TransformOptions transform_options(const Options& options, Split split) {
  TransformOptions transform;
  transform.seed = options.seed;
  if (split == Split::train) transform.augment = parse_augment(options.data.augment);
  transform.mean = options.data.mean;
  transform.std = options.data.std;
  transform.dtype = precision_of(options);
  return transform;
}

}  // namespace troupe
